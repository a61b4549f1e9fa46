// SPDX-License-Identifier: Apache-2.0
// The steps of a pre-tokenizer. Invariant: each is linear in the text, apart from its pattern's own bounded steps.
#include "text/pretokenize.h"

#include <algorithm>

#include "text/byte_level.h"
#include "text/fields.h"
#include "text/normalize.h"

namespace colibri {
namespace {

using Behavior = PreTokenizer::Behavior;

constexpr std::size_t kMaxSteps = 64;

// The pattern that ByteLevel has built in: GPT-2's.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Result<Behavior> parse_behavior(const Json& config, std::string_view fallback) {
  TRY(given, optional_string_field(config, "behavior"));
  const std::string name = given.empty() ? std::string(fallback) : given;
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  return data_error("behavior " + shown(name) + " is not supported");
}

struct Stretch {
  ByteRange range;
  bool delimiter = false;
};

/// All of a word as delimiters and what lies between.
void cut(std::size_t length, const std::vector<ByteRange>& matches, bool invert, std::vector<Stretch>& out) {
  out.clear();
  std::size_t done = 0;
  for (const ByteRange& match : matches) {
    if (match.begin != done) out.push_back({{done, match.begin}, invert});
    out.push_back({match, !invert});
    done = match.end;
  }
  if (done != length) out.push_back({{done, length}, invert});
}

void join(const std::vector<Stretch>& stretches, Behavior behavior, std::size_t offset, std::vector<ByteRange>& out) {
  const std::size_t first = out.size();
  bool last_was_delimiter = false;
  for (const auto& [range, delimiter] : stretches) {
    const bool has_last = out.size() > first;
    bool joined = false;
    switch (behavior) {
      case Behavior::isolated:
        break;
      case Behavior::removed:
        if (delimiter) continue;
        break;
      case Behavior::contiguous:
        joined = has_last && delimiter == last_was_delimiter;
        break;
      case Behavior::merged_with_previous:
        joined = has_last && delimiter && !last_was_delimiter;
        break;
      // Of several delimiters in a row, the last one goes with what follows.
      case Behavior::merged_with_next:
        joined = has_last && !delimiter && last_was_delimiter;
        break;
    }
    last_was_delimiter = delimiter;
    if (joined) {
      out.back().end = offset + range.end;
    } else {
      out.push_back({offset + range.begin, offset + range.end});
    }
  }
  out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
                           [](const ByteRange& range) { return range.begin == range.end; }),
            out.end());
}

/// Builds the next text word by word.
template <class Rewrite>
void rewrite_words(Words& words, const Rewrite& rewrite) {
  std::string text;
  text.reserve(2 * words.text.size());
  for (ByteRange& range : words.ranges) {
    const std::size_t begin = text.size();
    rewrite(std::string_view(words.text).substr(range.begin, range.end - range.begin), text);
    range = {begin, text.size()};
  }
  words.text = std::move(text);
}

}  // namespace

Result<PreTokenizer> PreTokenizer::parse(const Json& config) {
  PreTokenizer pre_tokenizer;
  if (!config.is_null()) TRY_STATUS(pre_tokenizer.add(config));
  return pre_tokenizer;
}

Status PreTokenizer::add_split(std::string_view pattern, Behavior behavior, bool invert) {
  TRY(regex, Regex::compile(pattern));
  steps_.emplace_back(Split{std::move(regex), behavior, invert});
  return {};
}

Status PreTokenizer::add_metaspace(const Json& config) {
  TRY(given, optional_string_field(config, "replacement"));
  const std::string mark = given.empty() ? "\u2581" : given;
  if (last_character(mark) != mark) return data_error("\"replacement\" must be one character");
  TRY(scheme, optional_string_field(config, "prepend_scheme"));
  if (!scheme.empty() && scheme != "always" && scheme != "first" && scheme != "never")
    return data_error("prepend_scheme " + shown(scheme) + " is not supported");
  TRY(prefix, bool_field(config, "add_prefix_space", true));  // of older files
  TRY(split, bool_field(config, "split", true));
  steps_.emplace_back(Blanks{mark});
  if (prefix && scheme != "never") steps_.emplace_back(Prefix{mark, scheme == "first"});
  if (!split) return {};
  TRY(boundary, Regex::literal(mark));
  steps_.emplace_back(Split{std::move(boundary), Behavior::merged_with_next});
  return {};
}

Status PreTokenizer::add(const Json& config) {
  TRY(type, string_field(config, "type"));
  if (type == "Sequence") {
    TRY(parts, array_field(config, "pretokenizers"));
    for (const Json& part : *parts) TRY_STATUS(add(part));
    return {};
  }
  if (steps_.size() >= kMaxSteps) return data_error("more than " + std::to_string(kMaxSteps) + " steps");
  if (type == "Split") {
    TRY(behavior, parse_behavior(config, ""));
    TRY(invert, bool_field(config, "invert", false));
    TRY(pattern, parse_pattern(config));
    steps_.emplace_back(Split{std::move(pattern), behavior, invert});
    return {};
  }
  if (type == "ByteLevel") {
    TRY(prefix, bool_field(config, "add_prefix_space", true));
    TRY(use_regex, bool_field(config, "use_regex", true));
    if (prefix) steps_.emplace_back(Prefix{" "});
    if (use_regex) TRY_STATUS(add_split(kGpt2Pattern, Behavior::isolated));
    steps_.emplace_back(ByteLetters{});
    return {};
  }
  if (type == "Digits") {
    TRY(individual, bool_field(config, "individual_digits", false));
    return add_split(R"(\p{N})", individual ? Behavior::isolated : Behavior::contiguous);
  }
  if (type == "Metaspace") return add_metaspace(config);
  if (type == "Whitespace") {
    const std::string word(kRustWord);
    return add_split("[" + word + "]+|[^" + word + "\\s]+", Behavior::removed, true);
  }
  if (type == "WhitespaceSplit") return add_split(R"(\s)", Behavior::removed);
  if (type == "Punctuation") {
    TRY(behavior, parse_behavior(config, "Isolated"));
    return add_split(R"([\p{P}!-/:-@\[-`{-~])", behavior);
  }
  return data_error("type " + shown(type) + " is not supported");
}

Status PreTokenizer::apply(const Split& split, Words& words, bool) {
  Regex::Matcher matcher(split.pattern);
  std::vector<ByteRange> matches, next;
  std::vector<Stretch> stretches;
  next.reserve(words.ranges.size() + words.text.size() / 4);
  for (const ByteRange& word : words.ranges) {
    matches.clear();
    TRY_STATUS(matcher.find_all(std::string_view(words.text).substr(word.begin, word.end - word.begin), matches));
    cut(word.end - word.begin, matches, split.invert, stretches);
    join(stretches, split.behavior, word.begin, next);
  }
  words.ranges = std::move(next);
  return {};
}

Status PreTokenizer::apply(const Prefix& prefix, Words& words, bool at_start) {
  bool wanted = !prefix.first_only || (at_start && !words.ranges.empty() && words.ranges.front().begin == 0);
  rewrite_words(words, [&](std::string_view word, std::string& out) {
    if (wanted && !word.starts_with(prefix.text)) out += prefix.text;
    out += word;
    wanted = !prefix.first_only;
  });
  return {};
}

Status PreTokenizer::apply(const Blanks& blanks, Words& words, bool) {
  rewrite_words(words, [&](std::string_view word, std::string& out) {
    for (const char c : word) c == ' ' ? out.append(blanks.as) : out.append(1, c);
  });
  return {};
}

Status PreTokenizer::apply(const ByteLetters&, Words& words, bool) {
  rewrite_words(words, [](std::string_view word, std::string& out) {
    for (const char c : word) append_utf8(kByteAlphabet[static_cast<unsigned char>(c)], out);
  });
  return {};
}

Result<Words> PreTokenizer::split(std::string text, bool at_start) const {
  Words words{std::move(text), {}};
  if (!words.text.empty()) words.ranges.push_back({0, words.text.size()});
  for (const Step& step : steps_)
    TRY_STATUS(std::visit([&](const auto& what) { return apply(what, words, at_start); }, step));
  return words;
}

}  // namespace colibri
