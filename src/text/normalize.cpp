// SPDX-License-Identifier: Apache-2.0
// Unicode forms by utf8proc's tables. Invariant: n log n also for long runs of combining marks, which utf8proc's own
// reordering sorts in quadratic time.
#include "text/normalize.h"

#include <algorithm>
#include <limits>

#include <utf8proc.h>

#include "text/fields.h"

namespace colibri {
namespace {

constexpr std::size_t kMaxSteps = 64;
constexpr std::size_t kMaxGrowth = 32;       // NFKD's own is 11
constexpr std::size_t kGrowthFloor = 4096;   // bytes that a short text may always take
constexpr char32_t kFirstComposing = 0x300;  // below, NFC changes nothing and there is no mark

bool is_nfc_inert(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}
static_assert(kFirstComposing >> 6 == (0xCC & 0x1F));  // 0xCC is the lead byte of U+0300

std::string unicode_form(std::string_view text, bool compose, bool compatible) {
  if (is_ascii(text) || (compose && !compatible && is_nfc_inert(text))) return std::string(text);
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    const auto point = static_cast<utf8proc_int32_t>(code_point(text.substr(at), length));
    utf8proc_int32_t parts[32];  // U+FDFA has 18, the most of all
    const auto n = utf8proc_decompose_char(point, parts, std::size(parts), options, nullptr);
    CHECK(n >= 0 && n <= static_cast<utf8proc_ssize_t>(std::size(parts)));
    points.insert(points.end(), parts, parts + n);
  }
  const auto rank = [](utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; };
  for (auto run = points.begin(); run != points.end();) {
    run = std::find_if(run, points.end(), [&](auto point) { return rank(point) != 0; });
    const auto end = std::find_if(run, points.end(), [&](auto point) { return rank(point) == 0; });
    std::stable_sort(run, end, [&](auto a, auto b) { return rank(a) < rank(b); });
    run = end;
  }
  if (compose) {
    const auto n = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                            static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    CHECK(n >= 0);
    points.resize(static_cast<std::size_t>(n));
  }
  std::string out;
  out.reserve(text.size());
  for (const utf8proc_int32_t point : points) append_utf8(static_cast<char32_t>(point), out);
  return out;
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    const char32_t point = code_point(text.substr(at), length);
    if (point == 0x130) {
      out += "i\u0307";  // the one letter whose lower case is two code points
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point))), out);
    }
  }
  return out;
}

template <class... Cases>
struct Visitor : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Visitor(Cases...) -> Visitor<Cases...>;

}  // namespace

Result<Regex> parse_pattern(const Json& config) {
  const Json* pattern = config.find("pattern");
  if (pattern != nullptr && pattern->find("Regex") != nullptr) {
    TRY(text, string_field(*pattern, "Regex"));
    return Regex::compile(text);
  }
  if (pattern == nullptr || pattern->find("String") == nullptr)
    return data_error("\"pattern\" must be {\"Regex\": ...} or {\"String\": ...}");
  TRY(text, string_field(*pattern, "String"));
  if (text.empty()) return data_error("\"pattern\" is an empty string");
  return Regex::literal(text);
}

Result<std::string> replace_all(const Regex& pattern, std::string_view text, std::string_view by) {
  std::vector<ByteRange> matches;
  TRY_STATUS(Regex::Matcher(pattern).find_all(text, matches));
  const std::size_t limit = kMaxGrowth * text.size() + kGrowthFloor;
  std::string out;
  std::size_t done = 0;
  for (const ByteRange& match : matches) {
    out.append(text.substr(done, match.begin - done)).append(by);
    done = match.end;
    if (out.size() > limit) return data_error("a replacement makes the text more than 32 times as long");
  }
  out += text.substr(done);
  return out;
}

Result<Normalizer> Normalizer::parse(const Json& config) {
  Normalizer normalizer;
  if (!config.is_null()) TRY_STATUS(normalizer.add(config));
  return normalizer;
}

Status Normalizer::add(const Json& config) {
  TRY(type, string_field(config, "type"));
  if (type == "Sequence") {
    TRY(parts, array_field(config, "normalizers"));
    for (const Json& part : *parts) TRY_STATUS(add(part));
    return {};
  }
  if (steps_.size() == kMaxSteps) return data_error("more than " + std::to_string(kMaxSteps) + " steps");
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    steps_.emplace_back(Form{type.back() == 'C', type[2] == 'K'});
  } else if (type == "Prepend") {
    TRY(text, string_field(config, "prepend"));
    if (text.size() > kGrowthFloor) return data_error("\"prepend\" is too long");
    steps_.emplace_back(Prepend{text});
  } else if (type == "Replace") {
    TRY(pattern, parse_pattern(config));
    TRY(text, string_field(config, "content"));
    steps_.emplace_back(Replace{std::move(pattern), text});
  } else if (type == "Strip") {
    TRY(left, bool_field(config, "strip_left", true));
    TRY(right, bool_field(config, "strip_right", true));
    steps_.emplace_back(Strip{left, right});
  } else if (type == "Lowercase") {
    steps_.emplace_back(Lowercase{});
  } else {
    return data_error("type " + shown(type) + " is not supported");
  }
  return {};
}

Result<std::string> Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) {
    if (out.empty()) break;
    TRY(next, std::visit(Visitor{
                             [&](const Form& form) -> Result<std::string> {
                               return unicode_form(out, form.compose, form.compatible);
                             },
                             [&](const Prepend& prepend) -> Result<std::string> { return prepend.text + out; },
                             [&](const Replace& replace) { return replace_all(replace.pattern, out, replace.text); },
                             [&](const Strip& strip) -> Result<std::string> {
                               std::string_view rest = out;
                               if (strip.left) rest.remove_prefix(leading_white_space(rest));
                               if (strip.right) rest.remove_suffix(trailing_white_space(rest));
                               return std::string(rest);
                             },
                             [&](Lowercase) -> Result<std::string> { return lowercase(out); },
                         },
                         step));
    out = std::move(next);
  }
  return out;
}

}  // namespace colibri
