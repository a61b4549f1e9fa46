// SPDX-License-Identifier: Apache-2.0
// Ids to text while they are generated: whole code points only, and nothing of a stop string.
// Invariant: however the ids are cut into calls, the texts joined are Tokenizer::decode of them all, up to the stop.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace colibri {

/// Holds bytes back until their code point is whole; an ill-formed stretch gives one U+FFFD. A reasoning or tool
/// parser reads its output, a StopMatcher comes after that.
class Detokenizer {
 public:
  /// The tokenizer must outlive this.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special) : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  /// The text that this id completes, maybe none. Unknown ids count as nothing.
  std::string push(TokenId id);
  /// What was held back; a code point cut short is U+FFFD.
  std::string flush();

 private:
  std::string take(bool at_end);

  const Tokenizer* tokenizer_;
  bool skip_special_;
  bool first_ = true;         // no token so far
  std::size_t stripped_ = 0;  // characters of Decoder::strip_start dropped so far
  bool at_start_ = true;      // all that has come was dropped
  std::string pending_;       // bytes not given yet
};

/// Cuts a text at the stop string that is complete first (of those that end there, the longest).
class StopMatcher {
 public:
  /// Empty strings never match. `include_stop`: the stop string stays in the text.
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  /// The text that can be shown: all but the longest end that begins a stop string. After a stop, nothing.
  std::string push(std::string_view text);
  /// What was held back.
  std::string flush();
  bool stopped() const { return !stop_.empty(); }
  /// The stop string that was found; empty before.
  const std::string& stop() const { return stop_; }

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> borders;  // [i]: longest proper border of the first i + 1 bytes (Knuth-Morris-Pratt)
    std::size_t matched = 0;           // bytes of `text` that the input ends with
  };
  std::vector<Stop> stops_;
  bool include_stop_;
  std::string stop_;
  std::string held_;
};

/// Both in one, for a plain completion.
class TextStream {
 public:
  struct Options {
    std::vector<std::string> stops;
    bool include_stop = false;
    bool skip_special = true;
  };
  TextStream(const Tokenizer& tokenizer, Options options)
      : detokenizer_(tokenizer, options.skip_special), matcher_(std::move(options.stops), options.include_stop) {}

  std::string push(TokenId id) { return matcher_.push(detokenizer_.push(id)); }
  /// At the end of the generation, whatever its reason.
  std::string flush() {
    std::string text = matcher_.push(detokenizer_.flush());
    return text += matcher_.flush();
  }
  /// A stop string was found: generation ends here.
  bool stopped() const { return matcher_.stopped(); }
  const std::string& stop() const { return matcher_.stop(); }

 private:
  Detokenizer detokenizer_;
  StopMatcher matcher_;
};

}  // namespace colibri
