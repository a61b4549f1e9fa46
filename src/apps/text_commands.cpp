// SPDX-License-Identifier: Apache-2.0
// `colibri tokenize`, `detokenize` and `template`: the text side of a checkpoint, without its weights.
#include <cstdio>
#include <ctime>

#include "apps/session.h"
#include "model/locate.h"

namespace colibri {
namespace {

Result<Tokenizer> open_tokenizer(const std::string& model) {
  TRY(directory, locate_model(model));
  return Tokenizer::load(directory);
}

/// 2026-01-02T03:04:05, or the current local time.
Result<std::tm> parse_now(const std::optional<std::string>& text) {
  if (!text) return local_now();
  std::tm now{};
  const char* end = strptime(text->c_str(), "%Y-%m-%dT%H:%M:%S", &now);
  if (end == nullptr || *end != '\0') return Error{Exit::usage, "--now: write it like 2026-01-02T03:04:05"};
  return now;
}

}  // namespace

Status tokenize_command(const TokenizeOptions& options) {
  TRY(tokenizer, open_tokenizer(options.model));
  std::string text;
  if (options.text) {
    text = *options.text;
  } else {
    TRY(contents, read_text(*options.file));
    text = std::move(contents);
  }
  TRY(ids, tokenizer.encode(text, options.special ? Specials::match : Specials::plain));
  if (options.json) {
    print_json(Json::Object{{"ids", Json::Array(ids.begin(), ids.end())}});
    return {};
  }
  for (std::size_t i = 0; i < ids.size(); ++i) std::printf("%s%d", i == 0 ? "" : ",", ids[i]);
  std::fputc('\n', stdout);
  return {};
}

Status detokenize_command(const DetokenizeOptions& options) {
  TRY(ids, parse_ids(options.ids));
  TRY(tokenizer, open_tokenizer(options.model));
  const int vocab = tokenizer.vocab_size();
  for (const std::int32_t id : ids)
    if (id >= vocab) return data_error("--ids: " + std::to_string(id) + " is outside 0.." + std::to_string(vocab - 1));
  const std::string text = tokenizer.decode(ids, false);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  return {};
}

Status template_command(const TemplateOptions& options) {
  TRY(now, parse_now(options.now));
  TRY(directory, locate_model(options.model));
  TRY(chat_template, ChatTemplate::load(directory));
  TRY(text, read_text(options.messages));
  TRY(variables, parse_json(text).at(options.messages));
  TRY(rendered, chat_template.render_raw(variables, now));
  std::fwrite(rendered.data(), 1, rendered.size(), stdout);
  return {};
}

}  // namespace colibri
