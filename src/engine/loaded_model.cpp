// SPDX-License-Identifier: Apache-2.0
// Text files first, weights last: what is wrong with a small file is said before a large one is read.
#include "engine/loaded_model.h"

#include <algorithm>
#include <random>

#include "base/memory.h"
#include "base/progress.h"
#include "model/locate.h"

namespace colibri {

Result<LoadedModel> LoadedModel::load(const std::string& name, std::size_t ram_budget, bool need_text) {
  TRY(directory, locate_model(name));
  LoadedModel loaded;
  loaded.ram_budget = ram_budget != 0 ? ram_budget : available_bytes();
  auto tokenizer = Tokenizer::load(directory);
  if (tokenizer.ok()) {
    loaded.tokenizer = std::move(*tokenizer);
  } else {
    if (need_text) return std::move(tokenizer).error();
    loaded.no_tokenizer = tokenizer.error().message;
  }
  auto chat_template = ChatTemplate::load(directory);
  if (chat_template.ok()) {
    loaded.chat_template = std::move(*chat_template);
  } else {
    loaded.no_chat_template = chat_template.error().message;
  }
  Progress progress("loading " + name);
  TRY(model,
      load_model(directory, {.progress = [&](std::uint64_t done, std::uint64_t total) { progress.update(done, total); },
                             .ram_budget = loaded.ram_budget}));
  loaded.model = std::move(model);
  if (loaded.tokenizer && loaded.tokenizer->vocab_size() > loaded.model.spec.vocab)
    return data_error(directory + ": tokenizer.json has token " + std::to_string(loaded.tokenizer->vocab_size() - 1) +
                      ", but config.json: vocab_size is " + std::to_string(loaded.model.spec.vocab));
  return loaded;
}

SamplingParams LoadedModel::sampling(const SamplingWishes& wishes) const {
  const GenerationConfig& defaults = model.generation;
  SamplingParams params;
  params.temperature = wishes.temperature.value_or(defaults.do_sample ? defaults.temperature : 0.0F);
  params.top_k = wishes.top_k.value_or(defaults.top_k);
  params.top_p = wishes.top_p.value_or(defaults.top_p);
  params.min_p = wishes.min_p.value_or(defaults.min_p);
  params.repetition_penalty = wishes.repetition_penalty.value_or(defaults.repetition_penalty);
  params.presence_penalty = wishes.presence_penalty.value_or(0.0F);
  params.frequency_penalty = wishes.frequency_penalty.value_or(0.0F);
  params.logit_bias = wishes.logit_bias;
  params.seed = wishes.seed ? *wishes.seed : (std::uint64_t{std::random_device{}()} << 32 | std::random_device{}());
  return params;
}

std::vector<std::int32_t> LoadedModel::stop_ids(bool ignore_eos) const {
  if (ignore_eos) return {};
  return {model.generation.eos.begin(), model.generation.eos.end()};
}

Result<LoadedModel::Prompt> LoadedModel::chat_prompt(const ChatRequest& chat) const {
  if (!tokenizer) return data_error(no_tokenizer);
  if (!chat_template) return data_error(no_chat_template);
  TRY(rendered, chat_template->render_chat(chat));
  TRY(ids, tokenizer->encode(rendered.text, rendered.plain));
  return Prompt{std::move(rendered.text), std::move(ids)};
}

Result<std::vector<std::int32_t>> LoadedModel::raw_prompt(std::string_view text) const {
  if (!tokenizer) return data_error(no_tokenizer);
  TRY(ids, tokenizer->encode(text, Specials::match));
  std::vector<std::int32_t> whole = tokenizer->add_special_tokens(ids);
  // Text that was rendered elsewhere has its BOS already: one is enough.
  const bool twice = whole.size() > ids.size() && !ids.empty() && whole[0] == ids[0];
  return twice ? std::move(ids) : std::move(whole);
}

}  // namespace colibri
