// SPDX-License-Identifier: Apache-2.0
// A Hugging Face tokenizer.json with a BPE model: text to ids and back.
// Invariant: constant after load and shared by all threads; bytes in a plain range never become a special token,
// whatever the text.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalize.h"
#include "text/pretokenize.h"

namespace colibri {

/// What "<|im_end|>" in a text is: its letters, or the special token. Added tokens that are not special (Qwen3's
/// "<tool_call>", say) are words like others, and match in both.
enum class Specials { plain, match };

class Tokenizer {
 public:
  /// Reads tokenizer.json of a model's directory.
  static Result<Tokenizer> load(const std::filesystem::path& model_dir);
  /// From the text of a tokenizer.json.
  static Result<Tokenizer> parse(std::string_view json);

  /// The ids of a text. What is not valid UTF-8 counts as U+FFFD. An error where the tokenizer's own patterns exceed
  /// their limits on this text.
  Result<std::vector<TokenId>> encode(std::string_view text, Specials specials) const;

  /// The ids of a rendered prompt whose `plain` ranges (sorted, apart, within the text) came from users: special
  /// tokens match outside of them alone. Where no plain range holds a special token's text, the ids are those of
  /// encode(text, Specials::match).
  Result<std::vector<TokenId>> encode(std::string_view text, std::span<const ByteRange> plain) const;

  /// What the "post_processor" puts around a text (BOS, rarely EOS). Chat templates write their own BOS.
  std::vector<TokenId> add_special_tokens(std::span<const TokenId> ids) const;

  /// The text of ids; unknown ids count as nothing. Equal to what a Detokenizer gives piece by piece.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  /// Largest id + 1; some ids below may be unused. The model's logits must have at least as many rows.
  TokenId vocab_size() const { return vocab_size_; }
  /// The bytes that a token stands for; empty for an unknown id.
  std::string token_bytes(TokenId id) const;
  std::optional<TokenId> id_of(std::string_view token) const;
  bool is_special(TokenId id) const;
  const std::vector<AddedToken>& added_tokens() const { return added_.all(); }

 private:
  friend class Detokenizer;

  Status read(const Json& root);
  Status check_ids() const;
  Status read_post_processor(const Json& config);
  Result<std::vector<ByteRange>> plain_after_normalizer(std::string_view text, std::string_view normalized,
                                                        std::span<const ByteRange> plain) const;
  Result<std::vector<TokenId>> encode_valid(std::string_view text, std::span<const ByteRange> plain) const;
  Status encode_segment(std::string_view text, bool at_start, std::span<const ByteRange> plain, Bpe::Encoder& encoder,
                        std::vector<TokenId>& ids) const;
  /// False where no token has this id.
  bool append_bytes(TokenId id, bool first, std::string& out) const;

  Bpe bpe_;
  AddedTokens added_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Decoder decoder_;
  std::vector<TokenId> prefix_, suffix_;  // of the post-processor
  TokenId vocab_size_ = 0;
};

}  // namespace colibri
