// SPDX-License-Identifier: Apache-2.0
// Exit codes of File and read_file for everything that is not a readable regular file, and exact ranges of those that
// are.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/progress.h"

namespace colibri {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "colibri_file_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/numbers";
    std::ofstream(path_) << "0123456789";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string range(std::uint64_t offset, std::size_t bytes) {
    auto file = File::open(path_);
    std::string text(bytes, '\0');
    const Status status = file->read_at(offset, std::as_writable_bytes(std::span(text)));
    return status.ok() ? text : "error " + std::to_string(static_cast<int>(status.error().code));
  }
  Exit open_error(const std::string& path) {
    const auto file = File::open(path);
    return file.ok() ? Exit::ok : file.error().code;
  }

  std::string directory_, path_;
};

TEST_F(FileTest, ReadsWholeFilesAndRanges) {
  EXPECT_EQ(*read_file(path_, 10), "0123456789");
  EXPECT_EQ(File::open(path_)->size(), 10U);
  EXPECT_EQ(range(3, 4), "3456");
  EXPECT_EQ(range(10, 0), "");
}

TEST_F(FileTest, AFileThatEndsEarlyIsAnIoError) {
  EXPECT_EQ(range(7, 4), "error 74");
  EXPECT_EQ(range(100, 1), "error 74");
}

TEST_F(FileTest, RefusesWhatIsOverTheLimit) {
  const auto text = read_file(path_, 9);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code, Exit::data);
  EXPECT_NE(text.error().message.find(path_), std::string::npos);
}

TEST_F(FileTest, NamesWhyAPathCannotBeOpened) {
  EXPECT_EQ(open_error(directory_ + "/absent"), Exit::not_found);
  EXPECT_EQ(open_error(path_ + "/below"), Exit::not_found);
  EXPECT_EQ(open_error(directory_), Exit::data);
  EXPECT_EQ(open_error("/dev/zero"), Exit::data);
  ASSERT_EQ(mkfifo((directory_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(open_error(directory_ + "/pipe"), Exit::data);  // and does not wait for a writer
  if (geteuid() != 0) {
    std::filesystem::permissions(path_, std::filesystem::perms::none);
    EXPECT_EQ(open_error(path_), Exit::not_found);
  }
}

TEST_F(FileTest, FollowsSymbolicLinks) {
  std::filesystem::create_symlink(path_, directory_ + "/link");
  EXPECT_EQ(*read_file(directory_ + "/link", 10), "0123456789");
  std::filesystem::create_symlink(directory_ + "/absent", directory_ + "/dangling");
  EXPECT_EQ(open_error(directory_ + "/dangling"), Exit::not_found);
}

TEST(Progress, LineShowsShareSizeRateAndRest) {
  EXPECT_EQ(progress_line("loading", 5'000'000'000, 20'000'000'000, 2.5),
            "loading   25%  5.0 / 20.0 GB  2.00 GB/s  ETA 8 s");
  EXPECT_EQ(progress_line("loading", 0, 20'000'000'000, 0), "loading    0%  0.0 / 20.0 GB  0.00 GB/s");
  EXPECT_EQ(progress_line("loading", 7, 7, 1), "loading  100%  0.0 / 0.0 GB  0.00 GB/s");
}

TEST(Progress, WritesNothingWhenStderrIsNoTerminal) {
  testing::internal::CaptureStderr();  // a file
  {
    Progress progress("loading");
    for (std::uint64_t i = 0; i < 1000; ++i) progress.update(i, 1000);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace colibri
