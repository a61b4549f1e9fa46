// SPDX-License-Identifier: Apache-2.0
// Matching by PCRE2. Invariant: every text given to PCRE2 is valid UTF-8.
#include "text/regex.h"

#include "text/fields.h"
#include "text/oniguruma.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace colibri {
namespace {

constexpr std::size_t kMaxPatternBytes = 1 << 16;
constexpr std::uint32_t kMaxSteps = 4'000'000;  // backtracking of one match: a fraction of a second
constexpr std::uint32_t kMaxHeapKib = 64 << 10;
constexpr std::uint32_t kMaxNesting = 100;

/// Runs that make nested quantifiers explode, each with an end that nothing consumes. The tail has every ASCII
/// character, lest PCRE2 sees that one it needs is missing and does not try.
std::vector<std::string> probes() {
  std::string tail = "\x01";
  for (char c = ' '; c < 0x7F; ++c) tail += c;
  std::vector<std::string> all;
  for (const char c : {'a', 'A', '0', ' ', '\n', '!', '.', '_', '<', 'x'}) all.push_back(std::string(48, c) + tail);
  return all;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[160];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

template <auto kFree>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> code;
};

struct Regex::Matcher::State {
  const pcre2_code* code = nullptr;
  std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> data;
  std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> limits;
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;
Regex::Matcher::Matcher(Matcher&&) noexcept = default;
Regex::Matcher::~Matcher() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes)
    return data_error("regular expression of " + std::to_string(pattern.size()) + " bytes; at most " +
                      std::to_string(kMaxPatternBytes));
  TRY(translated, pcre2_pattern(pattern));
  const std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxNesting);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context.get());
  if (code == nullptr) return data_error("regular expression " + shown(pattern) + ": " + pcre2_message(error));
  auto owned = std::make_unique<Code>();
  owned->code.reset(code);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where the system forbids it, the interpreter matches
  Regex regex(std::move(owned));
  Matcher matcher(regex);
  std::vector<ByteRange> found;
  for (const std::string& probe : probes())
    if (Status status = matcher.find_all(probe, found); !status)
      return std::move(status).error().at("regular expression " + shown(pattern));
  return regex;
}

Result<Regex> Regex::literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view(R"(\^$.|?*+()[]{}-&#)").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return compile(pattern);
}

Regex::Matcher::Matcher(const Regex& regex) : state_(std::make_unique<State>()) {
  state_->code = regex.code_->code.get();
  state_->data.reset(pcre2_match_data_create(1, nullptr));  // only where the whole match lies
  state_->limits.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(state_->limits.get(), kMaxSteps);
  pcre2_set_heap_limit(state_->limits.get(), kMaxHeapKib);
}

Status Regex::Matcher::find_all(std::string_view text, std::vector<ByteRange>& out) {
  const auto match = [&](std::size_t from, std::uint32_t options) {
    return pcre2_match(state_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, state_->data.get(), state_->limits.get());
  };
  const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(state_->data.get());
  std::size_t last_end = std::string_view::npos;
  for (std::size_t from = 0; from <= text.size();) {
    int result = match(from, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(from, PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return {};
    if (result < 0) return data_error("matching stopped: " + pcre2_message(result));
    const ByteRange found{bounds[0], bounds[1]};
    if (found.begin == found.end && found.end == last_end) {
      if (from >= text.size()) return {};
      from += utf8_step(text.substr(from)).length;
      continue;
    }
    // \K in a look-around can move a match's bounds past each other, or back.
    if (found.end < found.begin || (last_end != std::string_view::npos && found.begin < last_end))
      return data_error("matching stopped: a match that begins before the last one's end");
    out.push_back(found);
    from = last_end = found.end;
  }
  return {};
}

}  // namespace colibri
