// SPDX-License-Identifier: Apache-2.0
// The "added_tokens" of tokenizer.json: texts that are cut out before anything else, each for one id.
// Invariant: the leftmost match wins, and of those the longest; a special token never matches a byte of a plain range.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/bpe.h"
#include "text/normalize.h"

namespace colibri {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;      // skipped when decoding; does not match in plain text
  bool normalized = false;   // is looked for after the normalizer, in its own normalized form
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool single_word = false;  // only where no word character touches it
};

Result<std::vector<AddedToken>> parse_added_tokens(const Json& tokenizer);

class AddedTokens {
 public:
  /// A stretch of text, or the token that stands for it.
  struct Segment {
    ByteRange range;
    const AddedToken* token = nullptr;
  };
  enum class Stage { before_normalizer, after_normalizer };

  static Result<AddedTokens> build(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  const std::vector<AddedToken>& all() const { return tokens_; }
  const AddedToken* find(TokenId id) const;
  const AddedToken* find(std::string_view content) const;
  bool any(Stage stage) const { return !trie(stage).terminals.empty(); }

  /// Appends the segments of a valid text, none empty. `plain`: sorted ranges of it.
  Status split(std::string_view text, Stage stage, std::span<const ByteRange> plain, std::vector<Segment>& out) const;

 private:
  struct Trie {
    PairTable edges;                      // (node, byte) -> node; the root is 0
    std::vector<std::int32_t> terminals;  // [nodes] place in tokens_, or -1; empty: no tokens
    std::array<bool, 256> begins{};       // bytes that a token begins with
    void add(std::string_view text, std::int32_t token);
  };
  const Trie& trie(Stage stage) const { return stage == Stage::before_normalizer ? before_ : after_; }
  Result<bool> touches_word(std::string_view text, ByteRange match) const;

  std::vector<AddedToken> tokens_;        // by id
  std::vector<std::int32_t> by_content_;  // places in tokens_
  Trie before_, after_;
  std::optional<Regex> word_character_;  // where a token is single_word
};

}  // namespace colibri
