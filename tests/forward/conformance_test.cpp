// SPDX-License-Identifier: Apache-2.0
// Every family against Hugging Face transformers in fp32: stored logits of four prompts and 16 greedy tokens each, on
// every backend; and against itself, in steps and beside another sequence. The checkpoints and values are made by the
// scripts in tests/conformance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "backend/backend.h"
#include "base/file.h"
#include "base/json.h"
#include "forward/conformance_table.h"
#include "forward/place.h"
#include "forward/runner.h"
#include "model/model.h"
#include "model/rope.h"
#include "model/safetensors.h"

namespace colibri {
namespace {

const std::string kData = COLIBRI_SOURCE_DIR "/tests/conformance/data/";

constexpr const char* kDevices[] = {"reference", "cpu"};

/// And cuda, where there is a GPU.
std::vector<const char*> devices() {
  std::vector<const char*> names(std::begin(kDevices), std::end(kDevices));
  if (make_backend("cuda", 0).ok()) names.push_back("cuda");
  return names;
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

ConformanceTable& conformance_table() {
  static ConformanceTable table(COLIBRI_SOURCE_DIR "/docs/FAMILIES.md", kDevices);
  return table;
}

struct Expected {
  Json meta;
  std::map<std::string, std::vector<float>> logits;  // by prompt: the last rows, [rows * vocab]
};

Expected read_expected(const std::string& directory) {
  Expected expected;
  expected.meta = *parse_json(*read_file(directory + "/expected.json", 1 << 20));
  const File file = *File::open(directory + "/expected_logits.safetensors");
  const std::vector<TensorInfo> tensors = *read_safetensors_header(file);
  for (const TensorInfo& tensor : tensors) {
    std::vector<float> values(tensor.bytes / sizeof(float));
    EXPECT_TRUE(file.read_at(tensor.offset, std::as_writable_bytes(std::span(values))).ok());
    expected.logits[tensor.name.substr(0, tensor.name.find('.'))] = std::move(values);
  }
  return expected;
}

constexpr double kRelativeError = 2e-4;

class Conformance : public testing::TestWithParam<std::tuple<std::string, const char*>> {
 protected:
  Conformance() : directory_(kData + std::get<0>(GetParam())) {}

  void SetUp() override {
    auto model = load_model(directory_);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    backend_ = *make_backend(std::get<1>(GetParam()), 2);
    ASSERT_TRUE(place_weights(*backend_, model_).ok());
    expected_ = read_expected(directory_);
    for (const auto& [name, prompt] : expected_.meta.find("prompts")->as_object())
      for (const Json& id : prompt.as_array()) prompts_[name].push_back(static_cast<std::int32_t>(id.as_int()));
  }

  std::string directory_;
  Model model_;
  std::unique_ptr<Backend> backend_;
  Expected expected_;
  std::map<std::string, Ids> prompts_;
};

TEST_P(Conformance, LogitsAndGreedyTokens) {
  const auto& [family, device] = GetParam();
  const auto vocab = static_cast<std::size_t>(model_.spec.vocab);
  double worst = 0.0;
  for (const auto& [name, prompt] : prompts_) {
    SCOPED_TRACE(name);
    Runner runner(model_, *backend_);
    std::vector<float> logits = runner.run({prompt})[0];
    const std::vector<float>& wanted = expected_.logits.at(name);
    const std::size_t skip = logits.size() - wanted.size();
    float largest = 0.0F;
    for (const float value : wanted) largest = std::max(largest, std::abs(value));
    const float allowed = tolerance(model_.spec, largest);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_LE(std::abs(logits[skip + i] - wanted[i]), allowed) << "row " << i / vocab << " token " << i % vocab;
    worst = std::max(worst, relative_error(logits, wanted));
    const Json& greedy = *expected_.meta.find("greedy")->find(name);
    for (std::size_t step = 0; step < greedy.find("tokens")->as_array().size(); ++step) {
      if (greedy.find("top2_gap")->as_array()[step].as_double() < 2.0 * static_cast<double>(allowed)) break;  // a tie
      const auto last = logits.end() - static_cast<std::ptrdiff_t>(vocab);
      const auto best = static_cast<std::int32_t>(std::max_element(last, logits.end()) - last);
      ASSERT_EQ(best, greedy.find("tokens")->as_array()[step].as_int()) << "step " << step;
      logits = runner.run({{best}})[0];
    }
  }
  EXPECT_LE(worst, kRelativeError);
  if (device == std::string("cuda")) {
    std::printf("%s on cuda: relative error %.1e\n", family.c_str(), worst);
  } else {
    conformance_table().note(family, device, worst);
  }
}

TEST_P(Conformance, TheSameInStepsAndSideBySide) {
  const Ids& prompt = prompts_.at("forty");
  const std::vector<float> whole = Runner(model_, *backend_).run({prompt})[0];
  for (const std::size_t chunk : {1U, 7U, 32U})
    EXPECT_EQ(in_chunks(model_, *backend_, {prompt}, {chunk})[0], whole) << "chunks of " << chunk;
  const auto both = in_chunks(model_, *backend_, {prompt, prompts_.at("long")}, {5, 16});
  EXPECT_EQ(both[0], whole) << "beside another";
  EXPECT_LE(relative_error(both[1], expected_.logits.at("long")), kRelativeError);
}

TEST(LongText, TurnsAsLongropeSays) {
  const Json text = *parse_json(*read_file(COLIBRI_SOURCE_DIR "/tests/conformance/long_text.json", 1 << 20));
  auto model = load_model(kData + text.find("family")->as_string());
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->spec.context, 256);
  lengthen(model->spec, 300);
  ASSERT_EQ(model->spec.context, 512);
  Ids ids;
  for (const Json& id : text.find("ids")->as_array()) ids.push_back(static_cast<std::int32_t>(id.as_int()));
  std::vector<float> wanted;
  for (const Json& logit : text.find("logits")->as_array()) wanted.push_back(static_cast<float>(logit.as_double()));
  const auto backend = make_backend("cpu", 2);
  EXPECT_LE(relative_error(Runner(*model, **backend).run({ids})[0], wanted), kRelativeError);
}

INSTANTIATE_TEST_SUITE_P(All, Conformance,
                         testing::Combine(testing::ValuesIn(families()), testing::ValuesIn(devices())),
                         [](const auto& test) { return std::get<0>(test.param) + "_" + std::get<1>(test.param); });

}  // namespace
}  // namespace colibri
