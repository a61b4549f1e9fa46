// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files: what is read of good ones, and every way in which bad ones are refused.
#include "model/safetensors.h"

#include "model/fixture.h"

namespace colibri {
namespace {

using namespace test;

/// Parses a header over a data section of `data_bytes`.
Result<std::vector<TensorInfo>> parse(const std::string& header, std::uint64_t data_bytes) {
  return parse_safetensors_header(header, 8 + header.size(), 8 + header.size() + data_bytes);
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& at) {
  return '"' + name + R"(":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + at + "}";
}

TEST(SafetensorsHeader, ReadsNamesTypesShapesAndOffsets) {
  const std::string header = "{" + tensor("b", "\"F32\"", "[2,3]", "[4,28]") + R"(,"__metadata__":{"format":"pt"},)" +
                             tensor("a", "\"BF16\"", "[2]", "[0,4]") + "," + tensor("s", "\"I64\"", "[]", "[28,36]") +
                             "," + tensor("e", "\"U8\"", "[0,7]", "[28,28]") + "}   ";
  const auto tensors = parse(header, 36);
  expect_ok(tensors);
  ASSERT_EQ(tensors->size(), 4U);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[1].name, "b");
  EXPECT_EQ((*tensors)[1].type.name, "F32");
  EXPECT_EQ((*tensors)[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ((*tensors)[1].offset, 8 + header.size() + 4);
  EXPECT_EQ((*tensors)[1].bytes, 24U);
  EXPECT_EQ((*tensors)[2].name, "e");
  EXPECT_EQ((*tensors)[3].bytes, 8U);
}

TEST(SafetensorsHeader, AgreesWithAnIndependentReaderOnEveryFixture) {
  for (const char* model : {"qwen3_moe", "mixtral", "llama"}) {
    const std::string path = kConformance + model + "/model.safetensors";
    const RawTensors raw = read_raw(path);
    const auto file = File::open(path);
    const auto tensors = read_safetensors_header(*file);
    expect_ok(tensors);
    ASSERT_EQ(tensors->size(), raw.size());
    const std::string bytes = slurp(path);
    for (const TensorInfo& info : *tensors) {
      ASSERT_TRUE(raw.contains(info.name));
      EXPECT_EQ(info.shape, raw.at(info.name).shape);
      EXPECT_EQ(bytes.substr(info.offset, info.bytes), raw.at(info.name).bytes);
    }
  }
}

struct Bad {
  const char* why;
  std::string header;
  std::vector<std::string_view> parts;
};

TEST(SafetensorsHeader, RefusesWhatIsNotConsistent) {
  const std::string f32 = "\"F32\"";
  const std::string good = tensor("t", f32, "[1]", "[0,4]");
  const Bad cases[] = {
      {"empty", "", {"begin"}},
      {"a list", "[]", {"begin"}},
      {"a space first", " {}", {"begin"}},
      {"cut", "{" + good, {"JSON"}},
      {"two documents", "{" + good + "}{}", {"JSON"}},
      {"bad UTF-8", "{\"\xff\":1}", {"JSON"}},
      {"depth", "{\"t\":" + std::string(1000, '[') + std::string(1000, ']') + "}", {"deep"}},
      {"duplicate tensor", "{" + good + "," + good + "}", {"duplicate", "t"}},
      {"duplicate dtype",
       R"({"t":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       {"duplicate", "dtype"}},
      {"no object", R"({"t":5})", {"tensor t"}},
      {"a fourth member", R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", {"tensor t"}},
      {"unknown dtype", "{" + tensor("t", "\"F33\"", "[1]", "[0,4]") + "}", {"tensor t", "dtype", "F33"}},
      {"lower case dtype", "{" + tensor("t", "\"f32\"", "[1]", "[0,4]") + "}", {"tensor t", "f32"}},
      {"dtype is a number", "{" + tensor("t", "32", "[1]", "[0,4]") + "}", {"tensor t", "dtype"}},
      {"no dtype", R"({"t":{"type":"F32","shape":[1],"data_offsets":[0,4]}})", {"tensor t", "dtype"}},
      {"negative dimension", "{" + tensor("t", f32, "[-1]", "[0,4]") + "}", {"tensor t", "shape"}},
      {"fractional dimension", "{" + tensor("t", f32, "[1.5]", "[0,4]") + "}", {"tensor t", "shape"}},
      {"exponent", "{" + tensor("t", f32, "[1e3]", "[0,4000]") + "}", {"tensor t", "shape"}},
      {"shape overflows", "{" + tensor("t", f32, "[4294967296,4294967296]", "[0,4]") + "}", {"tensor t", "overflow"}},
      {"shape wraps to fit", "{" + tensor("t", f32, "[4611686018427387905]", "[0,4]") + "}", {"tensor t", "overflow"}},
      {"2^63", "{" + tensor("t", f32, "[9223372036854775808]", "[0,4]") + "}", {"tensor t", "shape"}},
      {"many dimensions", "{" + tensor("t", f32, "[1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", {"tensor t", "dimensions"}},
      {"shape is a string", "{" + tensor("t", f32, "\"1\"", "[0,4]") + "}", {"tensor t", "shape"}},
      {"begin after end", "{" + tensor("t", f32, "[1]", "[4,0]") + "}", {"tensor t", "data_offsets"}},
      {"negative offset", "{" + tensor("t", f32, "[1]", "[-4,0]") + "}", {"tensor t", "data_offsets"}},
      {"one offset", "{" + tensor("t", f32, "[1]", "[0]") + "}", {"tensor t", "data_offsets"}},
      {"three offsets", "{" + tensor("t", f32, "[1]", "[0,4,8]") + "}", {"tensor t", "data_offsets"}},
      {"wrong span", "{" + tensor("t", f32, "[2]", "[0,4]") + "}", {"tensor t", "span 4", "need 8"}},
      {"behind the data", "{" + tensor("t", f32, "[2]", "[0,8]") + "}", {"tensor t", "cut short"}},
      {"offset of 2^63 - 1",
       "{" + tensor("t", f32, "[0]", "[9223372036854775807,9223372036854775807]") + "}",
       {"tensor t"}},
      {"overlap",
       "{" + tensor("t", "\"U8\"", "[3]", "[0,3]") + "," + tensor("u", "\"U8\"", "[2]", "[2,4]") + "}",
       {"tensor u", "overlap"}},
      {"same range",
       "{" + tensor("t", f32, "[1]", "[0,4]") + "," + tensor("u", f32, "[1]", "[0,4]") + "}",
       {"overlap"}},
      {"hole",
       "{" + tensor("t", "\"U8\"", "[1]", "[0,1]") + "," + tensor("u", "\"U8\"", "[2]", "[2,4]") + "}",
       {"hole", "tensor u"}},
      {"hole at the start", "{" + tensor("t", "\"U8\"", "[3]", "[1,4]") + "}", {"hole", "tensor t"}},
      {"remainder", "{" + tensor("t", "\"U8\"", "[3]", "[0,3]") + "}", {"1 bytes behind"}},
      {"nothing but data", "{}", {"4 bytes behind"}},
  };
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.why);
    const auto result = parse(bad.header, 4);
    for (const std::string_view part : bad.parts) expect_error(result, Exit::data, {part});
  }
  expect_ok(parse("{" + good + "}", 4));
}

Result<std::vector<TensorInfo>> read(const TempDir& dir, const std::string& content) {
  TRY(file, File::open(dir.write("x.safetensors", content)));
  return read_safetensors_header(file);
}

TEST(SafetensorsFile, RefusesLengthsThatDoNotFit) {
  TempDir dir;
  const std::string header = "{" + tensor("t", "\"F32\"", "[1]", "[0,4]") + "}";
  const std::string good = container(header, "1234");
  expect_ok(read(dir, good));
  expect_error(read(dir, ""), Exit::data, {"x.safetensors", "too short"});
  expect_error(read(dir, "1234567"), Exit::data, {"x.safetensors", "too short"});
  expect_error(read(dir, std::string(8, '\xff') + header), Exit::data, {"x.safetensors", "header"});
  expect_error(read(dir, good.substr(0, 20)), Exit::data, {"x.safetensors", "header"});
  expect_error(read(dir, good.substr(0, good.size() - 1)), Exit::data, {"x.safetensors", "tensor t", "cut short"});
  expect_error(read(dir, good + "x"), Exit::data, {"x.safetensors", "behind"});
  expect_error(read(dir, std::string(8, '\0')), Exit::data, {"x.safetensors", "begin"});
}

TEST(SafetensorsFile, AHugeClaimCostsNothing) {
  TempDir dir;
  const std::string path = dir.write("big.safetensors", "");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 32);  // sparse; says a header of 0 bytes
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const std::uint64_t length = 3'000'000'000;
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.close();
  const auto opened = File::open(path);
  expect_error(read_safetensors_header(*opened), Exit::data, {"big.safetensors", "3000000000"});
}

TEST(SafetensorsHeader, ManyKeysAreBoundedInNumber) {
  std::string header = "{";
  for (int i = 0; i < 2'000'001; ++i) header += "\"" + std::to_string(i) + "\":1,";
  header.back() = '}';
  expect_error(parse(header, 0), Exit::data, {"limit"});
}

}  // namespace
}  // namespace colibri
