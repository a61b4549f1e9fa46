// SPDX-License-Identifier: Apache-2.0
// Scratch directories and a second, independent reader and writer of safetensors for the model tests.
// Invariant: nothing here uses src/model; what it reads and writes is the published format.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "core/spec.h"

namespace colibri::test {

inline const std::string kSource = COLIBRI_SOURCE_DIR;
inline const std::string kConformance = kSource + "/tests/conformance/data/";

inline std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A directory that goes with the object.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "colibri_test_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(*this / name, std::ios::binary) << content;
    return *this / name;
  }
  void copy_model(const std::string& from) const {
    std::filesystem::copy(from, path_, std::filesystem::copy_options::recursive);
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      std::filesystem::permissions(entry, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  }

 private:
  std::string path_;
};

inline Json json_of(const std::string& text) {
  auto json = parse_json(text);
  EXPECT_TRUE(json.ok()) << (json.ok() ? "" : json.error().message);
  return json.ok() ? *std::move(json) : Json();
}
inline Json json_file(const std::string& path) { return json_of(slurp(path)); }

struct RawTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;

  std::uint16_t half(std::size_t i) const {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes.data() + 2 * i, 2);
    return value;
  }
  float real(std::size_t i) const {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    return value;
  }
  std::size_t count() const {
    std::size_t n = 1;
    for (const std::int64_t dimension : shape) n *= static_cast<std::size_t>(dimension);
    return n;
  }
};
using RawTensors = std::map<std::string, RawTensor>;

/// Length, header, data.
inline std::string container(const std::string& header, const std::string& data) {
  std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + data;
}

inline RawTensors read_raw(const std::string& path) {
  const std::string file = slurp(path);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  RawTensors tensors;
  const Json header = json_of(file.substr(8, length));
  for (const auto& [name, entry] : header.as_object()) {
    if (name == "__metadata__") continue;
    RawTensor tensor{entry.find("dtype")->as_string(), {}, {}};
    for (const Json& dimension : entry.find("shape")->as_array()) tensor.shape.push_back(dimension.as_int());
    const auto begin = static_cast<std::size_t>(entry.find("data_offsets")->as_array()[0].as_int());
    const auto end = static_cast<std::size_t>(entry.find("data_offsets")->as_array()[1].as_int());
    tensor.bytes = file.substr(8 + length + begin, end - begin);
    tensors[name] = tensor;
  }
  return tensors;
}

inline std::string write_raw(const RawTensors& tensors) {
  Json header = Json::Object{};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    Json::Array shape;
    for (const std::int64_t dimension : tensor.shape) shape.push_back(dimension);
    const auto begin = static_cast<std::int64_t>(data.size());
    data += tensor.bytes;
    header.set(name, Json::Object{{"dtype", tensor.dtype},
                                  {"shape", shape},
                                  {"data_offsets", Json::Array{begin, static_cast<std::int64_t>(data.size())}}});
  }
  return container(write_json(header), data);
}

inline const AttentionSpec& attention_of(const LayerSpec& layer) { return std::get<AttentionSpec>(layer.mixer); }

/// The result is an error of this code whose message is one line and holds every part.
template <class R>
void expect_error(const R& result, Exit code, std::initializer_list<std::string_view> parts) {
  ASSERT_FALSE(result.ok()) << "expected an error with " << *parts.begin();
  const std::string& message = result.error().message;
  EXPECT_EQ(result.error().code, code) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 1000U) << message;
  for (const std::string_view part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " not in: " << message;
}

template <class R>
void expect_ok(const R& result) {
  ASSERT_TRUE(result.ok()) << result.error().message;
}

}  // namespace colibri::test
