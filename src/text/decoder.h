// SPDX-License-Identifier: Apache-2.0
// The "decoder" of tokenizer.json: from a token's text to the bytes that it stands for.
// Invariant: a token's bytes depend on nothing but the token and whether it is the first, so that streaming is exact.
//
// Where byte tokens do not make valid UTF-8, each maximal subpart becomes U+FFFD, as ByteLevel has it; Hugging Face's
// ByteFallback replaces every byte of the whole run instead, which cannot be known before the run has ended.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/regex.h"

namespace colibri {

class Decoder {
 public:
  Decoder() = default;  // a token stands for its text
  static Result<Decoder> parse(const Json& config);

  /// Appends the bytes of a token. `first`: no other token comes before it. `added`: its text is no byte alphabet.
  void append(std::string_view token, bool added, bool first, std::string& out) const;

  /// At the very start of the text, up to `count` of this character are dropped.
  struct Strip {
    std::string character;
    std::size_t count = 0;
  };
  const Strip& strip_start() const { return strip_start_; }

 private:
  struct Replace {
    std::string from, to;
  };
  struct StripToken {
    std::string character;
    std::size_t start = 0, stop = 0;
  };
  struct Metaspace {
    std::string mark;
    bool drop_in_first = false;
  };
  struct ByteFallback {};
  struct ByteLevel {};
  using Step = std::variant<Replace, StripToken, Metaspace, ByteFallback, ByteLevel>;

  Status add(const Json& config);
  std::vector<Step> steps_;
  bool fused_ = false;  // while parsing: what follows sees the whole text
  Strip strip_start_;
};

}  // namespace colibri
