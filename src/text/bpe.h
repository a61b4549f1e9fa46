// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding: the "model" of tokenizer.json with its vocabulary and merges.
// Invariant: a word costs n log n in its characters, and no id marked as reserved comes out of merging, so that plain
// text can never become a special token.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/pair_table.h"

namespace colibri {

using TokenId = std::int32_t;

inline constexpr std::size_t kMaxTokenIds = std::size_t{1} << 20;  // published vocabularies have up to 262,144
inline constexpr std::size_t kMaxTokenBytes = 4096;                // of one token's text

class Bpe {
 public:
  /// `reserved`: ids that only a match of the added token itself may give.
  static Result<Bpe> parse(const Json& model, std::span<const TokenId> reserved);

  /// Largest id of the vocabulary + 1; some ids below may be missing, and have an empty token.
  TokenId size() const { return static_cast<TokenId>(begins_.size()) - 1; }
  std::string_view token(TokenId id) const;
  std::optional<TokenId> find(std::string_view token) const;

  /// Appends the ids of words; keeps its scratch memory between them. One per thread.
  class Encoder {
   public:
    explicit Encoder(const Bpe& bpe) : bpe_(bpe) {}
    void append(std::string_view word, std::vector<TokenId>& out);

   private:
    struct Symbol {
      TokenId id;
      std::int32_t previous, next;  // places in symbols_, -1 at the ends
    };
    struct Candidate {
      std::uint32_t rank;
      std::int32_t place;  // of the left one
      TokenId left, right;
      bool operator>(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : place > other.place;
      }
    };
    void read(std::string_view word);
    void merge_short(std::vector<TokenId>& out);
    void merge_long(std::vector<TokenId>& out);
    void push_candidate(std::int32_t left);

    const Bpe& bpe_;
    std::vector<TokenId> ids_;
    std::vector<std::uint64_t> ranks_;
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
    std::string piece_;
  };

 private:
  static constexpr std::uint64_t kNoMerge = ~std::uint64_t{0};

  Status read_vocabulary(const Json& model);
  Status read_merges(const Json& model, std::span<const TokenId> reserved);
  Status read_unknown(const Json& model);
  /// rank << 32 | merged id, or kNoMerge.
  std::uint64_t merge_of(TokenId left, TokenId right) const {
    const std::uint64_t* found = merges_.find(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right));
    return found == nullptr ? kNoMerge : *found;
  }

  std::vector<char> letters_;          // all tokens, one after the other
  std::vector<std::uint32_t> begins_;  // [size + 1], of each id in letters_
  std::vector<TokenId> sorted_;        // ids by their token
  PairTable merges_;                   // (left, right) -> rank << 32 | merged
  PairTable characters_;               // (code point, 0) -> id of the token of that one character
  std::vector<TokenId> bytes_;         // [256] ids of <0x00>.. where byte_fallback is on; -1: no such token
  std::vector<bool> is_reserved_;      // [size]
  std::string prefix_, suffix_;        // continuing_subword_prefix, end_of_word_suffix
  std::optional<TokenId> unknown_;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;  // a word that is a token needs no merging
};

/// The byte of a token like <0x0A>, if it has that form.
std::optional<char> byte_of_token(std::string_view token);

}  // namespace colibri
