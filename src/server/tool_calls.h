// SPDX-License-Identifier: Apache-2.0
// Finds tool calls in an answer while it grows: <tool_call>{"name": ..., "arguments": {...}}</tool_call>, as Hermes and
// Qwen models write them.
//
// Invariant: however the text is cut into pieces, the same content and the same calls come out. Arguments are the bytes
// that the model wrote; what turns out to be no call is content. Time is linear in the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colibri {

/// One step of the answer's growth.
struct ToolDelta {
  int call = -1;          // index of the call; -1: content
  std::string name = {};  // in the first delta of a call
  std::string text = {};  // more content, or more of the call's arguments

  bool operator==(const ToolDelta&) const = default;
};

class ToolCallParser {
 public:
  /// What follows `max_calls` calls is dropped.
  explicit ToolCallParser(int max_calls) : max_calls_(max_calls) {}

  std::vector<ToolDelta> push(std::string_view text);
  /// At the end of the answer: what was held back.
  std::vector<ToolDelta> finish();

  int calls() const { return calls_; }
  /// Nothing can come any more.
  bool done() const { return state_ == State::done; }

 private:
  enum class State {
    content,    // outside of calls
    head,       // after the opening tag, before the arguments
    arguments,  // inside of the arguments' object
    tail,       // after it, before the closing tag
    whole,      // a body with its members in another order: judged when it is whole
    done,
  };

  void read_content();
  bool read_head();
  bool read_arguments();
  bool read_tail();
  bool read_whole();
  void end_call();
  /// `body` as a call in one piece; false where it is none.
  bool emit_whole(std::string_view body);
  void emit_content(std::string_view text);

  const int max_calls_;
  State state_ = State::content;
  std::string buffer_;  // of the text, what is not decided yet
  std::vector<ToolDelta> out_;
  int calls_ = 0;
  bool after_call_ = false;  // only white space since a call
  int depth_ = 0;            // of arguments
  bool in_string_ = false;
  bool escaped_ = false;
  std::size_t scanned_ = 0;  // bytes of buffer_ without a closing tag
};

}  // namespace colibri
