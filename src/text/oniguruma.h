// SPDX-License-Identifier: Apache-2.0
// The regular expressions of tokenizer.json are Oniguruma's; this writes them as PCRE2 reads them.
// Invariant: what the two are known to understand differently is rewritten or refused.
//
//   \s \S \w \W \h \b \B   Oniguruma has White_Space, its own Word (with marks) and hex digits  : written out
//   \p{Han}                the script alone; PCRE2's has Script_Extensions, and with them the punctuation of CJK
//   \p{L} \p{So} ..        and the ideographs, hieroglyphs and emoji of Unicode 15 and 16: PCRE2 10.42 has Unicode 14
//   [:alpha:] ..           are wider in Oniguruma: written out
//   [ab&&[^c]]             an intersection: by look-ahead
//   {,n} \uHHHH \v         written as {0,n}, \x{HHHH} and \x{B}
//   (?m) (?s) {n}+         mean other things in the two: refused, as are other nested sets
//   ^ $                    match at lines in both (PCRE2_MULTILINE)
//   (?i:...) (?!..) (?<..) ?+ *+ ++ (?>..)   are the same
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace colibri {

Result<std::string> pcre2_pattern(std::string_view oniguruma);

}  // namespace colibri
