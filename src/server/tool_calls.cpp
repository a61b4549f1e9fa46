// SPDX-License-Identifier: Apache-2.0
// A state machine over the text; each state takes what it can decide from the buffer's front.
#include "server/tool_calls.h"

#include <algorithm>

#include "base/json.h"

namespace colibri {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr std::size_t kHeadBytes = 1024;  // a longer head is judged when the call is whole

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_blank(std::string_view text) { return std::all_of(text.begin(), text.end(), is_space); }

/// Bytes at the end of `text` that could begin the opening tag.
std::size_t open_tag_begun(std::string_view text) {
  for (std::size_t n = std::min(text.size(), kOpen.size() - 1); n > 0; --n)
    if (text.ends_with(kOpen.substr(0, n))) return n;
  return 0;
}

/// Matches a text that may end early.
struct Scanner {
  enum class Outcome { matched, incomplete, mismatch };

  std::string_view rest;
  Outcome outcome = Outcome::matched;

  bool literal(std::string_view wanted) {
    space();
    if (outcome != Outcome::matched) return false;
    const std::size_t n = std::min(rest.size(), wanted.size());
    if (rest.substr(0, n) != wanted.substr(0, n)) {
      outcome = Outcome::mismatch;
    } else if (n < wanted.size()) {
      outcome = Outcome::incomplete;
    } else {
      rest.remove_prefix(n);
    }
    return outcome == Outcome::matched;
  }

  /// A JSON string with its quotes.
  std::string_view string() {
    space();
    if (outcome != Outcome::matched) return {};
    for (std::size_t i = 0; i < rest.size(); ++i) {
      if (i == 0 && rest[0] != '"') break;
      if (rest[i] == '\\') {
        ++i;
      } else if (i > 0 && rest[i] == '"') {
        const std::string_view found = rest.substr(0, i + 1);
        rest.remove_prefix(i + 1);
        return found;
      }
    }
    outcome = !rest.empty() && rest[0] != '"' ? Outcome::mismatch : Outcome::incomplete;
    return {};
  }

  void space() {
    while (!rest.empty() && is_space(rest[0])) rest.remove_prefix(1);
  }
};

}  // namespace

std::vector<ToolDelta> ToolCallParser::push(std::string_view text) {
  buffer_ += text;
  for (bool more = true; more;) {
    switch (state_) {
      case State::content:
        read_content();
        more = state_ == State::head;
        break;
      case State::head:
        more = read_head();
        break;
      case State::arguments:
        more = read_arguments();
        break;
      case State::tail:
        more = read_tail();
        break;
      case State::whole:
        more = read_whole();
        break;
      case State::done:
        buffer_.clear();
        more = false;
        break;
    }
  }
  return std::exchange(out_, {});
}

std::vector<ToolDelta> ToolCallParser::finish() {
  switch (state_) {
    case State::content:
      if (!after_call_ || !is_blank(buffer_)) emit_content(buffer_);
      break;
    case State::head:
    case State::whole:
      if (!emit_whole(buffer_)) emit_content(std::string(kOpen) + buffer_);
      break;
    case State::arguments:
    case State::tail:
    case State::done:
      break;
  }
  buffer_.clear();
  state_ = State::done;
  return std::exchange(out_, {});
}

void ToolCallParser::read_content() {
  const std::size_t open = buffer_.find(kOpen);
  const bool found = open != std::string::npos;
  const std::size_t decided = found ? open : buffer_.size() - open_tag_begun(buffer_);
  const std::string_view text = std::string_view(buffer_).substr(0, decided);
  if (after_call_ && is_blank(text)) {  // white space between two calls, or at the end, belongs to the format
    if (!found) return;
  } else {
    emit_content(text);
    after_call_ = false;
  }
  buffer_.erase(0, decided + (found ? kOpen.size() : 0));
  if (found) state_ = State::head;
}

bool ToolCallParser::read_head() {
  Scanner scan{std::string_view(buffer_).substr(0, kHeadBytes)};
  std::string_view name;
  scan.literal("{");
  if (scan.outcome == Scanner::Outcome::mismatch) {  // the tag stands in prose
    emit_content(kOpen);
    after_call_ = false;
    state_ = State::content;
    return true;
  }
  scan.literal("\"name\"");
  scan.literal(":");
  name = scan.string();
  scan.literal(",");
  scan.literal("\"arguments\"");
  scan.literal(":");
  scan.space();
  const std::size_t arguments = static_cast<std::size_t>(scan.rest.data() - buffer_.data());
  scan.literal("{");
  if (scan.outcome == Scanner::Outcome::incomplete && buffer_.size() < kHeadBytes) return false;
  if (scan.outcome == Scanner::Outcome::matched) {
    const auto parsed = parse_json(name);
    if (parsed.ok() && !parsed->as_string().empty()) {
      out_.push_back({.call = calls_++, .name = parsed->as_string()});
      buffer_.erase(0, arguments);
      depth_ = 0;
      state_ = State::arguments;
      return true;
    }
  }
  scanned_ = 0;
  state_ = State::whole;
  return true;
}

bool ToolCallParser::read_arguments() {
  std::size_t end = 0;
  while (end < buffer_.size() && state_ == State::arguments) {
    const char c = buffer_[end];
    if (in_string_) {
      if (!std::exchange(escaped_, !escaped_ && c == '\\') && c == '"') in_string_ = false;
    } else if (c == '<') {  // no JSON: the call ends early
      state_ = State::tail;
      break;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
      state_ = State::tail;
    }
    ++end;
  }
  if (end > 0) out_.push_back({.call = calls_ - 1, .text = buffer_.substr(0, end)});
  buffer_.erase(0, end);
  return state_ == State::tail;
}

bool ToolCallParser::read_tail() {
  Scanner scan{buffer_};
  scan.space();
  if (scan.rest.starts_with('}')) scan.rest.remove_prefix(1);
  scan.literal(kClose);
  if (scan.outcome == Scanner::Outcome::incomplete) return false;
  if (scan.outcome == Scanner::Outcome::matched) buffer_.erase(0, buffer_.size() - scan.rest.size());
  end_call();
  if (scan.outcome == Scanner::Outcome::mismatch) after_call_ = false;
  return true;
}

bool ToolCallParser::read_whole() {
  const std::size_t close = buffer_.find(kClose, scanned_);
  if (close == std::string::npos) {
    scanned_ = buffer_.size() - std::min(buffer_.size(), kClose.size() - 1);
    return false;
  }
  const std::string body = buffer_.substr(0, close);
  buffer_.erase(0, close + kClose.size());
  if (emit_whole(body)) {
    end_call();
  } else {
    emit_content(std::string(kOpen) + body + std::string(kClose));
    after_call_ = false;
    state_ = State::content;
  }
  return true;
}

void ToolCallParser::end_call() {
  after_call_ = true;
  in_string_ = escaped_ = false;
  state_ = calls_ < max_calls_ ? State::content : State::done;
}

bool ToolCallParser::emit_whole(std::string_view body) {
  const auto call = parse_json(body);
  if (!call.ok()) return false;
  const Json* name = call->find("name");
  if (name == nullptr || !name->is_string() || name->as_string().empty()) return false;
  const Json* arguments = call->find("arguments");
  const bool none = arguments == nullptr || arguments->is_null();
  if (!none && !arguments->is_object() && !arguments->is_string()) return false;
  out_.push_back({.call = calls_, .name = name->as_string()});
  out_.push_back({.call = calls_++,
                  .text = none                     ? std::string("{}")
                          : arguments->is_string() ? arguments->as_string()
                                                   : write_json(*arguments)});
  return true;
}

void ToolCallParser::emit_content(std::string_view text) {
  if (text.empty()) return;
  if (!out_.empty() && out_.back().call < 0) {
    out_.back().text += text;
  } else {
    out_.push_back({.text = std::string(text)});
  }
}

}  // namespace colibri
