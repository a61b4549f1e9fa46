// SPDX-License-Identifier: Apache-2.0
// The MODEL argument: directories, the Hugging Face cache, and what is refused with which advice.
#include "model/locate.h"

#include "model/fixture.h"

namespace colibri {
namespace {

using namespace test;
namespace fs = std::filesystem;

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"}) unsetenv(name);
    setenv("HF_HOME", home_.path().c_str(), 1);
    fs::create_directories(snapshot_);
    fs::create_directories(repository_ + "/refs");
    std::ofstream(repository_ + "/refs/main") << "abc123\n";
    std::ofstream(snapshot_ + "/config.json") << "{}";
  }
  void TearDown() override { unsetenv("HF_HOME"); }

  TempDir home_;
  std::string repository_ = home_ / "hub/models--Org--Name-1.5";
  std::string snapshot_ = repository_ + "/snapshots/abc123";
};

TEST_F(Cache, FindsTheSnapshotOfMain) {
  EXPECT_EQ(*locate_model("Org/Name-1.5"), snapshot_);
  EXPECT_EQ(*locate_config("Org/Name-1.5"), snapshot_ + "/config.json");
}

TEST_F(Cache, HubCacheWinsOverHome) {
  setenv("HF_HUB_CACHE", "/nonexistent", 1);
  expect_error(locate_model("Org/Name-1.5"), Exit::not_found, {"/nonexistent", "hf download Org/Name-1.5"});
  setenv("HF_HUB_CACHE", (home_ / "hub").c_str(), 1);
  EXPECT_EQ(*locate_model("Org/Name-1.5"), snapshot_);
  unsetenv("HF_HUB_CACHE");
}

TEST_F(Cache, DefaultsToTheHomeDirectory) {
  unsetenv("HF_HOME");
  const std::string before = getenv("HOME") == nullptr ? "" : getenv("HOME");
  setenv("HOME", home_.path().c_str(), 1);
  fs::create_directories(home_ / ".cache/huggingface");
  fs::rename(home_ / "hub", home_ / ".cache/huggingface/hub");
  EXPECT_EQ(*locate_model("Org/Name-1.5"), home_ / ".cache/huggingface/hub/models--Org--Name-1.5/snapshots/abc123");
  setenv("HOME", before.c_str(), 1);
}

TEST_F(Cache, MissingModelGetsTheDownloadLine) {
  expect_error(locate_model("Other/Name"), Exit::not_found, {"hf download Other/Name"});
  fs::remove(snapshot_ + "/config.json");
  expect_error(locate_model("Org/Name-1.5"), Exit::not_found, {"hf download Org/Name-1.5"});
}

TEST_F(Cache, ARefCannotLeaveTheRepository) {
  std::ofstream(repository_ + "/refs/main") << "../../../etc";
  expect_error(locate_model("Org/Name-1.5"), Exit::data, {"refs/main"});
}

TEST_F(Cache, NamesThatAreNoRepositoryAreNotLookedUp) {
  for (const char* name : {"../x", "a/b/c", "a/..", "/etc", "plain", ""})
    expect_error(locate_model(std::string(name) + "-absent"), Exit::not_found, {"no such directory"});
}

TEST(Locate, DirectoryAndConfigFile) {
  const std::string model = kConformance + "qwen3_moe";
  EXPECT_EQ(*locate_model(model), model);
  EXPECT_EQ(*locate_config(model + "/config.json"), model + "/config.json");
  TempDir dir;
  fs::create_directory_symlink(model, dir / "link");
  EXPECT_EQ(*locate_model(dir / "link"), dir / "link");
}

TEST(Locate, RefusesWhatIsNoCheckpoint) {
  TempDir dir;
  expect_error(locate_model(dir.path()), Exit::not_found, {dir.path(), "config.json"});
  expect_error(locate_config(dir.path()), Exit::not_found, {"config.json"});
  expect_error(locate_model(dir.write("file", "x")), Exit::data, {"file", "directory"});
  expect_error(locate_model(dir.write("model-Q4.GGUF", "GGUF")), Exit::data, {"model-Q4.GGUF", "safetensors"});
  expect_error(locate_model(dir / "absent.gguf"), Exit::data, {"absent.gguf", "safetensors"});
}

}  // namespace
}  // namespace colibri
