// SPDX-License-Identifier: Apache-2.0
// A checkpoint with everything that answering needs: weights, tokenizer, chat template, defaults.
// Invariant: const after load; any thread may use it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "model/model.h"
#include "text/template.h"
#include "text/tokenizer.h"

namespace colibri {

/// Sampling parameters as a caller gives them; what is empty comes from the model's generation_config.json.
struct SamplingWishes {
  std::optional<float> temperature{}, top_p{}, min_p{}, repetition_penalty{}, presence_penalty{}, frequency_penalty{};
  std::optional<int> top_k{};
  std::optional<std::uint64_t> seed{};  // drawn at random where empty
  std::vector<TokenBias> logit_bias{};
};

struct LoadedModel {
  Model model;
  std::size_t ram_budget = 0;                 // bytes that weights and cache may take
  std::optional<Tokenizer> tokenizer;         // empty where the checkpoint has no tokenizer files
  std::string no_tokenizer;                   // then: why, in one line
  std::optional<ChatTemplate> chat_template;  // empty where there is none
  std::string no_chat_template;               // then: why

  /// `need_text`: a missing tokenizer is an error. Shows a progress bar on a terminal.
  static Result<LoadedModel> load(const std::string& name, std::size_t ram_budget, bool need_text);

  SamplingParams sampling(const SamplingWishes& wishes) const;
  std::vector<std::int32_t> stop_ids(bool ignore_eos) const;

  /// A conversation as token ids: rendered by the template, with special tokens only where the template put them.
  struct Prompt {
    std::string text;
    std::vector<std::int32_t> ids;
  };
  Result<Prompt> chat_prompt(const ChatRequest& chat) const;

  /// A text as it is: special tokens match, and what the tokenizer puts before every text (BOS) is added where the text
  /// does not begin with it.
  Result<std::vector<std::int32_t>> raw_prompt(std::string_view text) const;
};

}  // namespace colibri
