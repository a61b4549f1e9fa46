// SPDX-License-Identifier: Apache-2.0
// The bundled model end to end against Hugging Face transformers in fp32: prompt, ids, text and log probabilities of
// every stored conversation. The values lie in tests/golden/chat_cases.json.
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "engine/answer.h"
#include "engine/engine.h"
#include "engine/loaded_model.h"
#include "forward/place.h"

namespace colibri {
namespace {

constexpr double kTie = 1e-3;       // a smaller gap between the two best logits may fall either way
constexpr double kLogprobs = 1e-3;  // allowed distance

std::vector<std::int32_t> ids_of(const Json& array) {
  std::vector<std::int32_t> ids;
  for (const Json& id : array.as_array()) ids.push_back(static_cast<std::int32_t>(id.as_int()));
  return ids;
}

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, EveryConversation) {
  auto loaded = LoadedModel::load(COLIBRI_SOURCE_DIR "/models/colibri-tiny", 0, true);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  auto backend = make_backend(GetParam(), 2);
  ASSERT_TRUE(backend.ok());
  ASSERT_TRUE(place_weights(**backend, loaded->model).ok());
  auto engine = Engine::create(loaded->model, **backend, {});
  ASSERT_TRUE(engine.ok());
  const Json cases = *parse_json(*read_file(COLIBRI_SOURCE_DIR "/tests/golden/chat_cases.json", 1 << 22));
  ASSERT_EQ(cases.as_array().size(), 48U);
  // The oracle is slow: a few conversations show that it is the same model.
  const std::size_t count = std::string_view(GetParam()) == "reference" ? 4 : cases.as_array().size();
  std::size_t ties = 0;
  for (const Json& expected : std::span(cases.as_array()).first(count)) {
    const Json* tools = expected.find("tools");
    SCOPED_TRACE(expected.find("prompt")->as_string());
    const auto prompt = loaded->chat_prompt({expected.find("messages"), tools->is_null() ? nullptr : tools});
    ASSERT_TRUE(prompt.ok()) << prompt.error().message;
    ASSERT_EQ(prompt->text, expected.find("prompt")->as_string());
    ASSERT_EQ(prompt->ids, ids_of(*expected.find("prompt_ids")));

    const std::vector<std::int32_t> wanted = ids_of(*expected.find("greedy_ids"));
    const bool to_length = expected.find("finish")->as_string() == "length";
    Answer answer(&*loaded->tokenizer, {});
    Request request;
    request.prompt = prompt->ids;
    request.sampling = loaded->sampling({.temperature = 0.0F});
    request.sampling.logprobs = 0;
    request.max_tokens = to_length ? static_cast<int>(wanted.size()) : 512;
    request.stop_ids = loaded->stop_ids(false);
    request.sink = [&answer](const TokenEvent& event) { answer.push(event); };
    ASSERT_TRUE((*engine)->submit(request));
    while ((*engine)->step()) {
    }
    ASSERT_EQ(answer.logprobs().size(), answer.ids().size());
    if (expected.find("min_top2_gap")->as_double() >= kTie) {
      ASSERT_EQ(answer.ids(), wanted);
      EXPECT_EQ(answer.text(), expected.find("text")->as_string());
      EXPECT_EQ(answer.finish(), to_length ? Finish::length : Finish::stop);
    } else {
      ++ties;
    }
    for (std::size_t i = 0; i < wanted.size() && i < answer.ids().size() && answer.ids()[i] == wanted[i]; ++i)
      EXPECT_NEAR(answer.logprobs()[i], expected.find("logprobs")->as_array()[i].as_double(), kLogprobs)
          << "token " << i;
  }
  EXPECT_LE(ties, 2U) << "only 2 of the 48 stored cases have a tie";
}

/// With cuda where there is a GPU.
std::vector<const char*> devices() {
  std::vector<const char*> names = {"cpu", "reference"};
  if (make_backend("cuda", 0).ok()) names.push_back("cuda");
  return names;
}

INSTANTIATE_TEST_SUITE_P(Backends, Golden, testing::ValuesIn(devices()),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace colibri
