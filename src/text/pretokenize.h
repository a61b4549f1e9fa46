// SPDX-License-Identifier: Apache-2.0
// The "pre_tokenizer" of tokenizer.json: cuts the text into the words that BPE then works on one by one.
// Invariant: words are stretches of one text, in its order, none empty; a step looks at one word at a time.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/regex.h"

namespace colibri {

struct Words {
  std::string text;
  std::vector<ByteRange> ranges;  // of `text`
};

class PreTokenizer {
 public:
  PreTokenizer() = default;  // all of the text is one word
  static Result<PreTokenizer> parse(const Json& config);

  /// Valid text to words. `at_start`: nothing comes before the text (Metaspace's prepend_scheme "first" asks).
  Result<Words> split(std::string text, bool at_start) const;

  enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

 private:
  struct Split {
    Regex pattern;
    Behavior behavior;
    bool invert = false;  // what lies between matches is the delimiter
  };
  /// Prepends to each word that does not begin with it, or only to the one at the very start.
  struct Prefix {
    std::string text;
    bool first_only = false;
  };
  /// Writes blanks as another character.
  struct Blanks {
    std::string as;
  };
  /// Writes each byte as its letter of the byte alphabet.
  struct ByteLetters {};
  using Step = std::variant<Split, Prefix, Blanks, ByteLetters>;

  Status add(const Json& config);
  Status add_split(std::string_view pattern, Behavior behavior, bool invert = false);
  Status add_metaspace(const Json& config);
  static Status apply(const Split& split, Words& words, bool at_start);
  static Status apply(const Prefix& prefix, Words& words, bool at_start);
  static Status apply(const Blanks& blanks, Words& words, bool at_start);
  static Status apply(const ByteLetters& letters, Words& words, bool at_start);

  std::vector<Step> steps_;
};

}  // namespace colibri
