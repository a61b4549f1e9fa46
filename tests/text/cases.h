// SPDX-License-Identifier: Apache-2.0
// What the tests of text/ share: stored files, and a small tokenizer.json to bend.
// Invariant: expected ids and texts come from the stored files of make_tokenizer_cases.py and the golden files alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "text/stream.h"

namespace colibri {

using Ids = std::vector<TokenId>;

inline Json read_json(const std::string& path) {
  auto text = read_file(std::string(COLIBRI_SOURCE_DIR "/") + path, std::uint64_t{16} << 20);
  EXPECT_TRUE(text.ok()) << text.error().message;
  auto json = parse_json(*text);
  EXPECT_TRUE(json.ok()) << json.error().message;
  return *json;
}

inline Ids ids_of(const Json& array) {
  Ids ids;
  for (const Json& id : array.as_array()) ids.push_back(static_cast<TokenId>(id.as_int()));
  return ids;
}

inline Tokenizer parsed(const Json& json) {
  auto tokenizer = Tokenizer::parse(write_json(json));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(*tokenizer);
}

inline const Tokenizer& bundled_tokenizer() {
  static const Tokenizer tokenizer = [] {
    auto loaded = Tokenizer::load(COLIBRI_SOURCE_DIR "/models/colibri-tiny");
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return std::move(*loaded);
  }();
  return tokenizer;
}

inline const std::vector<std::string>& stored_tokenizers() {
  static const std::vector<std::string> names = {
      "added",   "cl100k",  "deepseek_v2", "deepseek_v3", "replaced_blanks", "fused_unknown", "gpt2",  "gpt4o",
      "granite", "kimi_k2", "llama2",      "llama3",      "metaspace_first", "mixtral",       "olmoe", "prefixed",
      "qwen2",   "qwen3_5", "splits",      "words"};
  return names;
}

inline Json stored_file(const std::string& name) { return read_json("tests/text/data/tokenizers/" + name + ".json"); }

/// "tokenizer", whole, and its "cases", one for each of the texts.
inline Json stored_tokenizer(const std::string& name) {
  Json document = stored_file(name);
  Json& model = *document.find("tokenizer")->find("model");
  if (model.find("vocab")->is_string()) {
    const Json shared = stored_file(model.find("vocab")->as_string());
    for (const char* key : {"vocab", "merges"}) model.set(key, *shared.find(key));
  }
  return document;
}

/// What a TextStream gives for ids, which must come in whole code points and be equal to decode().
inline std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  TextStream stream(tokenizer, {.stops = {}, .include_stop = false, .skip_special = skip_special});
  std::string joined;
  for (const TokenId id : ids) {
    const std::string part = stream.push(id);
    EXPECT_TRUE(is_valid_utf8(part));
    joined += part;
  }
  joined += stream.flush();
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(joined, tokenizer.decode(ids, skip_special));
  return joined;
}

/// A tokenizer of the letters a, b, c with the tokens ab and abc, and <s> as a special token.
inline Json small_tokenizer() {
  auto json = parse_json(R"({
    "added_tokens": [{"id": 5, "content": "<s>", "special": true, "normalized": false}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": ["a b", "ab c"]}})");
  return *json;
}

/// The message of the refusal, which must be one line with exit code 65.
inline std::string refusal_of_text(std::string_view json) {
  const auto tokenizer = Tokenizer::parse(json);
  if (tokenizer.ok()) return "(accepted)";
  EXPECT_EQ(tokenizer.error().code, Exit::data);
  EXPECT_EQ(tokenizer.error().message.find('\n'), std::string::npos);
  EXPECT_LT(tokenizer.error().message.size(), 500u);
  return tokenizer.error().message;
}
inline std::string refusal(const Json& json) { return refusal_of_text(write_json(json)); }

}  // namespace colibri
