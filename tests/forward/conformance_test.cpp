// SPDX-License-Identifier: Apache-2.0
// Every family against Hugging Face transformers in fp32: stored logits of four prompts and 16 greedy tokens each, on
// every backend. The checkpoints and values are made by the scripts in tests/conformance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "backend/backend.h"
#include "base/file.h"
#include "base/json.h"
#include "forward/forward.h"
#include "model/model.h"
#include "model/safetensors.h"

namespace colibri {
namespace {

const std::string kData = COLIBRI_SOURCE_DIR "/tests/conformance/data/";

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
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

/// One conversation's cache and scratch.
class Runner {
 public:
  Runner(const Model& model, Backend& backend)
      : model_(model),
        backend_(backend),
        pool_(*KvPool::create(model.spec, {.sequences = 1, .context = 256, .max_chunk = 256})),
        scratch_(*Scratch::create(model.spec, 256, 256)) {}

  /// Logits of every row of `tokens`, which follow what came before.
  std::vector<float> run(const std::vector<std::int32_t>& tokens) {
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> rows;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      positions.push_back(position_ + static_cast<int>(i));
      rows.push_back(static_cast<int>(i));
    }
    const int count = static_cast<int>(tokens.size());
    pool_.release_behind_window(kv_, position_);
    EXPECT_TRUE(pool_.reserve(kv_, position_ + count));
    std::vector<std::span<const std::int32_t>> tables;
    kv_.spans(tables);
    const SequenceRows sequence{0, count, position_, tables};
    std::vector<float> logits(tokens.size() * static_cast<std::size_t>(model_.spec.vocab));
    forward(backend_, model_, {tokens, positions, {&sequence, 1}, rows}, pool_, scratch_,
            Rows(logits.data(), count, model_.spec.vocab));
    position_ += count;
    return logits;
  }

 private:
  const Model& model_;
  Backend& backend_;
  KvPool pool_;
  Scratch scratch_;
  KvSequence kv_;
  int position_ = 0;
};

/// Rounding of an fp32 forward pass, norm-wise: about ten operations a layer, each rounding K times on its way to a
/// residual stream of the logits' size. Independent roundings add in squares; both sides of the comparison round.
float tolerance(const ModelSpec& spec, float largest) {
  constexpr float kUnit = 0x1p-24F;
  const float roundings = 10.0F * static_cast<float>(spec.layers.size() + 1) * static_cast<float>(2 * spec.d_model);
  return 2.0F * kUnit * std::sqrt(roundings) * std::max(largest, 1.0F);
}

class Conformance : public testing::TestWithParam<std::tuple<std::string, const char*>> {};

TEST_P(Conformance, LogitsAndGreedyTokens) {
  const auto& [family, device] = GetParam();
  auto model = load_model(kData + family);
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto backend = make_backend(device, 2);
  ASSERT_TRUE(backend.ok());
  const Expected expected = read_expected(kData + family);
  const auto vocab = static_cast<std::size_t>(model->spec.vocab);
  float worst = 0.0F;
  for (const auto& [name, prompt_json] : expected.meta.find("prompts")->as_object()) {
    SCOPED_TRACE(name);
    std::vector<std::int32_t> prompt;
    for (const Json& id : prompt_json.as_array()) prompt.push_back(static_cast<std::int32_t>(id.as_int()));
    Runner runner(*model, **backend);
    std::vector<float> logits = runner.run(prompt);
    const std::vector<float>& wanted = expected.logits.at(name);
    const std::size_t skip = logits.size() - wanted.size();
    float largest = 0.0F;
    for (const float value : wanted) largest = std::max(largest, std::abs(value));
    const float allowed = tolerance(model->spec, largest);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const float off = std::abs(logits[skip + i] - wanted[i]);
      ASSERT_LE(off, allowed) << "row " << i / vocab << " token " << i % vocab;
      worst = std::max(worst, off / allowed);
    }
    const Json& greedy = *expected.meta.find("greedy")->find(name);
    for (std::size_t step = 0; step < greedy.find("tokens")->as_array().size(); ++step) {
      if (greedy.find("top2_gap")->as_array()[step].as_double() < 2.0 * static_cast<double>(allowed)) break;  // a tie
      const auto last = logits.end() - static_cast<std::ptrdiff_t>(vocab);
      const auto best = static_cast<std::int32_t>(std::max_element(last, logits.end()) - last);
      ASSERT_EQ(best, greedy.find("tokens")->as_array()[step].as_int()) << "step " << step;
      logits = runner.run({best});
    }
  }
  std::printf("%s on %s: largest error %.0f %% of the bound\n", family.c_str(), device,
              static_cast<double>(worst) * 100.0);
}

INSTANTIATE_TEST_SUITE_P(All, Conformance,
                         testing::Combine(testing::ValuesIn(families()), testing::Values("reference", "cpu")),
                         [](const auto& test) { return std::get<0>(test.param) + "_" + std::get<1>(test.param); });

}  // namespace
}  // namespace colibri
