// SPDX-License-Identifier: Apache-2.0
// One pass over the pattern. Invariant: what is not known to differ is copied as it is; PCRE2 checks the syntax.
#include "text/oniguruma.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace colibri {
namespace {

using Named = std::pair<std::string_view, std::string_view>;

// Members of sets, as they stand in a class.
constexpr std::string_view kSpaceSet =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNotSpaceSet =
    R"(\x{0}-\x{8}\x{E}-\x{1F}!-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";
constexpr std::string_view kHexSet = "0-9A-Fa-f";
constexpr std::string_view kWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kWordOutsideClasses = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";  // also words, there alone

constexpr Named kPosixSets[] = {{"alnum", R"(\p{Alphabetic}\p{Nd})"},
                                {"alpha", R"(\p{Alphabetic})"},
                                {"blank", R"(\t\p{Zs})"},
                                {"digit", R"(\p{Nd})"},
                                {"lower", R"(\p{Lowercase})"},
                                {"punct", R"(\p{P}\p{S})"},
                                {"space", kSpaceSet},
                                {"upper", R"(\p{Uppercase})"},
                                {"xdigit", kHexSet}};

// What Unicode 15 and 16 added to properties: ideographs of the extensions H and I, Egyptian hieroglyphs, symbols.
constexpr std::string_view kNewLetters = R"(\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF}\x{13460}-\x{143FA})";
constexpr std::string_view kNewSymbols =
    R"(\x{2427}-\x{2429}\x{2FFC}-\x{2FFF}\x{31E4}\x{31E5}\x{31EF}\x{1CC00}-\x{1CCEF}\x{1CD00}-\x{1CEB3}\x{1F6DC})"
    R"(\x{1F774}-\x{1F776}\x{1F77B}-\x{1F77F}\x{1F7D9}\x{1F8B2}-\x{1F8BB}\x{1F8C0}\x{1F8C1}\x{1FA75}-\x{1FA77})"
    R"(\x{1FA87}-\x{1FA89}\x{1FA8F}\x{1FAAD}-\x{1FAAF}\x{1FABB}-\x{1FABF}\x{1FAC6}\x{1FACE}\x{1FACF})"
    R"(\x{1FADA}-\x{1FADC}\x{1FADF}\x{1FAE8}\x{1FAE9}\x{1FAF7}\x{1FAF8}\x{1FBCB}-\x{1FBEF})";
constexpr Named kNewMembers[] = {{"Han", R"(\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})"},
                                 {"L", kNewLetters},
                                 {"Lo", kNewLetters},
                                 {"Alphabetic", kNewLetters},
                                 {"alnum", kNewLetters},
                                 {"alpha", kNewLetters},
                                 {"S", kNewSymbols},
                                 {"So", kNewSymbols},
                                 {"punct", kNewSymbols}};

// Properties with long names that are no scripts.
constexpr std::string_view kBinary[] = {
    "Any",         "ASCII",      "Alphabetic", "Emoji", "Lowercase", "Uppercase", "Extended_Pictographic",
    "Ideographic", "White_Space"};

template <std::size_t n>
std::string_view look_up(const Named (&table)[n], std::string_view name) {
  const auto found = std::find_if(table, table + n, [&](const Named& entry) { return entry.first == name; });
  return found == table + n ? std::string_view() : found->second;
}

Error unsupported(std::string_view what) {
  return data_error("regular expression: " + std::string(what) + " is not supported");
}

class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> all() {
    std::string out;
    while (at_ < pattern_.size()) {
      if (pattern_[at_] == '[') {
        TRY(set, bracketed(false));
        out += set;
      } else if (pattern_[at_] == '\\' && at_ + 1 < pattern_.size()) {
        TRY(set, escape(false));
        out += set;
      } else {
        TRY_STATUS(plain(out));
      }
    }
    return out;
  }

 private:
  bool follows(std::string_view what) const { return pattern_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!follows(what)) return false;
    at_ += what.size();
    return true;
  }

  Status plain(std::string& out) {
    const std::string_view rest = pattern_.substr(at_);
    if (rest.starts_with("(?")) {
      const std::string_view flags = rest.substr(2, std::min(rest.size(), rest.find_first_not_of("imsx-", 2)) - 2);
      if (flags.find_first_of("ms") != std::string_view::npos) return unsupported("(?m) or (?s)");
    } else if (rest.starts_with("}+")) {
      const std::size_t open = out.find_last_of('{');
      if (open != std::string::npos && out.find_first_not_of("0123456789,", open + 1) == std::string::npos)
        return unsupported("{n,m}+");
    }
    out += rest.front();
    ++at_;
    if (rest.starts_with("{,")) out += '0';
    return {};
  }

  /// A class from [ to ]: as a class, or as look-aheads where it is an intersection.
  Result<std::string> bracketed(bool inner) {
    ++at_;
    const bool negated = take("^");
    std::string ahead, members;
    bool closed = false;           // the operand is complete
    if (take("]")) members = "]";  // first of the class: itself
    while (!take("]")) {
      if (at_ == pattern_.size()) return data_error("regular expression: [ without ]");
      if (take("&&")) {
        if (negated || inner || members.empty()) return unsupported("such an intersection in a class");
        ahead += "(?=" + (closed ? members : "[" + members + "]") + ")";
        members.clear();
        closed = false;
      } else if (closed) {
        return unsupported("a set within a set");
      } else if (take("[:")) {
        const std::size_t end = pattern_.find(":]", at_);
        const std::string_view name = pattern_.substr(at_, end == std::string_view::npos ? 0 : end - at_);
        const std::string_view set = look_up(kPosixSets, name);
        if (set.empty()) return unsupported("[:" + std::string(name.substr(0, 16)) + ":]");
        members.append(set).append(look_up(kNewMembers, name));
        at_ = end + 2;
      } else if (pattern_[at_] == '[') {
        if (inner || !members.empty()) return unsupported("a set within a set");
        TRY(operand, bracketed(true));
        members = operand;
        closed = true;
      } else if (pattern_[at_] == '\\' && at_ + 1 < pattern_.size()) {
        TRY(set, escape(true));
        members += set;
      } else {
        if (members.empty() && follows("^")) members += '\\';  // a complement only where the class begins
        members += pattern_[at_++];
      }
    }
    if (ahead.empty()) {
      if (closed) return unsupported("a set within a set");
      return (negated ? "[^" : "[") + members + "]";
    }
    if (members.empty()) return unsupported("such an intersection in a class");
    return "(?:" + ahead + (closed ? members : "[" + members + "]") + ")";
  }

  /// What an escape stands for; a complement only where it can be written in a class.
  Result<std::string> escape(bool in_class) {
    const char letter = pattern_[at_ + 1];
    at_ += 2;
    const auto set = [&](std::string_view members, bool negated = false) {
      return in_class ? std::string(members) : (negated ? "[^" : "[") + std::string(members) + "]";
    };
    const std::string word = std::string(kWordSet).append(kNewLetters).append(in_class ? "" : kWordOutsideClasses);
    switch (letter) {
      case 's':
        return set(kSpaceSet);
      case 'S':
        return set(kNotSpaceSet);
      case 'w':
        return set(word);
      case 'h':
        return set(kHexSet);
      case 'v':
        return std::string(R"(\x{B})");
      case 'W':
      case 'H':
        if (in_class) return unsupported(std::string("\\") + letter + " in a class");
        return set(letter == 'W' ? word : kHexSet, true);
      case 'b':
      case 'B': {
        if (in_class) return std::string{'\\', letter};
        const char *const after_word = letter == 'b' ? "!" : "=", *const else_after = letter == 'b' ? "=" : "!";
        return "(?:(?<=" + set(word) + ")(?" + after_word + set(word) + ")|(?<!" + set(word) + ")(?" + else_after +
               set(word) + "))";
      }
      case 'u': {
        const std::string_view digits = pattern_.substr(at_, 4);
        if (digits.size() < 4) return data_error("regular expression: \\u wants four hex digits");
        at_ += 4;
        return "\\x{" + std::string(digits) + "}";
      }
      case 'p':
      case 'P':
        if (follows("{")) return property(letter == 'P', in_class);
        [[fallthrough]];
      default:
        return std::string{'\\', letter};
    }
  }

  Result<std::string> property(bool negated, bool in_class) {
    const std::size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) return data_error("regular expression: \\p{ without }");
    ++at_;
    if (take("^")) negated = !negated;
    const std::string name(pattern_.substr(at_, end - at_));
    at_ = end + 1;
    const bool script = name.size() > 2 && std::find(std::begin(kBinary), std::end(kBinary), name) == std::end(kBinary);
    const std::string full = (script ? "{sc:" : "{") + name + "}";
    const std::string_view added = look_up(kNewMembers, name);
    if (in_class) return negated ? "\\P" + full : "\\p" + full + std::string(added);
    return (negated ? "[^\\p" : "[\\p") + full + std::string(added) + "]";
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::string> pcre2_pattern(std::string_view oniguruma) { return Translation(oniguruma).all(); }

}  // namespace colibri
