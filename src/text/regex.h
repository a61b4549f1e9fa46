// SPDX-License-Identifier: Apache-2.0
// The regular expressions of tokenizer.json, which are Oniguruma's, on PCRE2; its header is seen in regex.cpp alone.
// Invariant: a match ends within fixed limits of steps and memory, or is an error: no pattern can burn time.
//
// How the two differ, and what is done about it at compile():
//   \s \S \w \W \h    Oniguruma has White_Space, Word and hex digits: written out as classes (PCRE2's \s has U+180E,
//                     its \w lacks marks, its \h is a blank)
//   ^ $               match at lines in both (PCRE2_MULTILINE)
//   {,n}  \uHHHH      written as {0,n} and \x{HHHH}
//   (?m) (?s)  {n}+   mean other things in the two: refused, as are && and nested sets in a class
//   (?i:...) \p{..} (?!..) (?<..) ?+ *+ ++ (?>..)   are the same
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/utf8.h"

namespace colibri {

class Regex {
 public:
  /// A pattern that is bad, or that exceeds the limits on short runs of like characters, is an error.
  static Result<Regex> compile(std::string_view pattern);
  /// Matches this very text.
  static Result<Regex> literal(std::string_view text);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// One thread's use of a Regex, which must outlive it.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    Matcher(Matcher&&) noexcept;
    ~Matcher();

    /// Appends all matches in a valid text, from left to right; an empty one only where no match ends.
    Status find_all(std::string_view text, std::vector<ByteRange>& out);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace colibri
