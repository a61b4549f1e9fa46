// SPDX-License-Identifier: Apache-2.0
// Every published weight format through the whole model: logits against those that transformers computes with the
// values that tests/conformance/formats/make_formats.py decoded.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "forward/runner.h"
#include "model/safetensors.h"

namespace colibri {
namespace {

const std::string kFormats = COLIBRI_SOURCE_DIR "/tests/conformance/formats/data/";

std::vector<std::string> formats() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFormats)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

class Formats : public testing::TestWithParam<std::tuple<std::string, const char*>> {};

TEST_P(Formats, LogitsAreThoseOfTheDecodedWeights) {
  const auto& [format, device] = GetParam();
  const auto model = load_model(kFormats + format);
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->warnings.size(), 1U);
  EXPECT_NE(model->warnings[0].find("decoded to bf16"), std::string::npos) << model->warnings[0];
  const auto backend = make_backend(device, 2);
  ASSERT_TRUE(backend.ok());
  const Json expected = *parse_json(*read_file(kFormats + format + "/expected.json", 1 << 20));
  const File file = *File::open(kFormats + format + "/expected_logits.safetensors");
  const std::vector<TensorInfo> tensors = *read_safetensors_header(file);
  for (const TensorInfo& tensor : tensors) {
    SCOPED_TRACE(tensor.name);
    std::vector<float> wanted(tensor.bytes / sizeof(float));
    ASSERT_TRUE(file.read_at(tensor.offset, std::as_writable_bytes(std::span(wanted))).ok());
    Ids prompt;
    for (const Json& id : expected.find("prompts")->find(tensor.name.substr(0, tensor.name.find('.')))->as_array())
      prompt.push_back(static_cast<std::int32_t>(id.as_int()));
    const std::vector<float> logits = Runner(*model, **backend).run({prompt})[0];
    float largest = 0.0F;
    for (const float value : wanted) largest = std::max(largest, std::abs(value));
    const float allowed = tolerance(model->spec, largest);
    const float* last = logits.data() + logits.size() - wanted.size();
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(last[i], wanted[i], allowed) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Formats,
                         testing::Combine(testing::ValuesIn(formats()), testing::Values("reference", "cpu")),
                         [](const auto& test) { return std::get<0>(test.param) + "_" + std::get<1>(test.param); });

}  // namespace
}  // namespace colibri
