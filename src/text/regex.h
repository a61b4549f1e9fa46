// SPDX-License-Identifier: Apache-2.0
// The regular expressions of tokenizer.json on PCRE2, whose header is seen in regex.cpp alone.
// Invariant: a match ends within fixed limits of steps and memory, or is an error: no pattern can burn time.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/utf8.h"

namespace colibri {

/// \w of Rust's regular expressions, as the members of a class: the reference uses it where no pattern is given.
inline constexpr std::string_view kRustWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D})";

class Regex {
 public:
  /// A pattern in Oniguruma's notation (text/oniguruma.h). One that is bad, or that exceeds the limits on short runs
  /// of like characters, is an error.
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
