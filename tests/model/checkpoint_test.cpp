// SPDX-License-Identifier: Apache-2.0
// A directory's shards and index, checked against each other in both directions.
#include "model/checkpoint.h"

#include <sys/stat.h>

#include "model/fixture.h"

namespace colibri {
namespace {

using namespace test;
namespace fs = std::filesystem;

RawTensors bytes_named(std::initializer_list<const char*> names) {
  RawTensors tensors;
  for (const char* name : names) tensors[name] = {"U8", {1}, "x"};
  return tensors;
}

std::string index_of(std::initializer_list<std::pair<const char*, const char*>> entries) {
  Json map = Json::Object{};
  for (const auto& [tensor, shard] : entries) map.set(tensor, shard);
  return write_json(Json::Object{{"metadata", Json::Object{{"total_size", 3}}}, {"weight_map", map}});
}

/// Two shards: a and b in one, c in the other.
class Sharded : public testing::Test {
 protected:
  void SetUp() override {
    dir_.write("one.safetensors", write_raw(bytes_named({"a", "b"})));
    dir_.write("two.safetensors", write_raw(bytes_named({"c"})));
    index({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}});
  }
  void index(std::initializer_list<std::pair<const char*, const char*>> entries) {
    dir_.write("model.safetensors.index.json", index_of(entries));
  }
  auto open() { return Checkpoint::open(dir_.path()); }

  TempDir dir_;
};

TEST_F(Sharded, FindsEveryTensor) {
  const auto checkpoint = open();
  expect_ok(checkpoint);
  EXPECT_EQ(checkpoint->n_tensors(), 3U);
  ASSERT_NE(checkpoint->find("c"), nullptr);
  EXPECT_EQ(checkpoint->shards()[checkpoint->find("c")->shard].file.path(), dir_ / "two.safetensors");
  EXPECT_EQ(checkpoint->find("d"), nullptr);
}

TEST_F(Sharded, TheIndexDecidesWhichFilesExist) {
  dir_.write("consolidated.safetensors", write_raw(bytes_named({"a", "z"})));
  dir_.write("model.safetensors", "garbage");
  expect_ok(open());
}

TEST_F(Sharded, LinksInTheDirectoryAreFollowed) {
  TempDir blobs;
  fs::rename(dir_ / "two.safetensors", blobs / "0123abcd");
  fs::create_symlink(blobs / "0123abcd", dir_ / "two.safetensors");
  expect_ok(open());
  fs::remove(blobs / "0123abcd");
  expect_error(open(), Exit::data, {"two.safetensors", "missing"});
}

TEST_F(Sharded, AMissingShardIsNamed) {
  fs::remove(dir_ / "one.safetensors");
  expect_error(open(), Exit::data, {dir_ / "one.safetensors", "missing"});
}

TEST_F(Sharded, NamesThatLeaveTheDirectoryAreRefused) {
  for (const char* name : {"../x", "/etc/passwd", "sub/one.safetensors", "..", ""}) {
    index({{"a", name}});
    expect_error(open(), Exit::data, {"index.json", "weight_map"});
  }
}

TEST_F(Sharded, IndexAndShardsMustAgree) {
  index({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "one.safetensors"}});
  expect_error(open(), Exit::data, {"one.safetensors", "tensor c"});
  index({{"a", "one.safetensors"}, {"b", "two.safetensors"}, {"c", "two.safetensors"}});
  expect_error(open(), Exit::data, {"one.safetensors", "tensor b", "two.safetensors"});
  index({{"a", "one.safetensors"}, {"c", "two.safetensors"}});
  expect_error(open(), Exit::data, {"one.safetensors", "tensor b"});
}

TEST_F(Sharded, OneTensorInTwoShardsIsRefused) {
  dir_.write("two.safetensors", write_raw(bytes_named({"b", "c"})));
  expect_error(open(), Exit::data, {"two.safetensors", "tensor b"});
}

TEST_F(Sharded, IndexesThatAreNoneAreNamed) {
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})",
        R"({"weight_map": {"a": "one.safetensors", "a": "two.safetensors"}})"}) {
    SCOPED_TRACE(text);
    dir_.write("model.safetensors.index.json", text);
    expect_error(open(), Exit::data, {"index.json"});
  }
}

TEST_F(Sharded, ShardsThatAreNoFilesAreRefusedWithoutWaiting) {
  fs::remove(dir_ / "two.safetensors");
  ASSERT_EQ(mkfifo((dir_ / "two.safetensors").c_str(), 0600), 0);
  expect_error(open(), Exit::data, {"two.safetensors", "regular"});
  fs::remove(dir_ / "two.safetensors");
  fs::create_directory(dir_ / "two.safetensors");
  expect_error(open(), Exit::data, {"two.safetensors", "regular"});
  fs::remove(dir_ / "two.safetensors");
  fs::create_symlink("/dev/random", dir_ / "two.safetensors");
  expect_error(open(), Exit::data, {"two.safetensors", "regular"});
}

TEST(Single, NoWeightsAtAllIsSaid) {
  TempDir dir;
  expect_error(Checkpoint::open(dir.path()), Exit::data, {dir.path(), "model.safetensors"});
  dir.write("model.safetensors", write_raw(bytes_named({"a"})));
  const auto checkpoint = Checkpoint::open(dir.path());
  expect_ok(checkpoint);
  EXPECT_EQ(checkpoint->n_tensors(), 1U);
}

}  // namespace
}  // namespace colibri
