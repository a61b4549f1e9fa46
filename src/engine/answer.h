// SPDX-License-Identifier: Apache-2.0
// One answer as it grows: token events in, text out, with stop strings and the reason for its end.
// Invariant: the pieces' text, put together, is text(), whether anybody looked at the pieces or not; nothing comes
// after a piece whose finish is not none.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "text/stream.h"
#include "text/tokenizer.h"

namespace colibri {

class Answer {
 public:
  struct Piece {
    std::string text;  // whole UTF-8; may be empty
    Finish finish = Finish::none;
  };

  /// Without a tokenizer there is no text, and `stop` must be empty. The tokenizer outlives the answer.
  Answer(const Tokenizer* tokenizer, std::vector<std::string> stop);

  /// One thread at a time. After a stop string matched, further events are ignored: cancel the request.
  Piece push(const TokenEvent& event);

  const std::string& text() const { return text_; }
  const std::vector<std::int32_t>& ids() const { return ids_; }  // ends with the stop token if there was one
  const std::vector<float>& logprobs() const { return logprobs_; }
  Finish finish() const { return finish_; }
  /// The stop string that ended the answer; empty where none did.
  std::string_view stop_string() const;

 private:
  std::optional<TextStream> stream_;
  std::string text_;
  std::vector<std::int32_t> ids_;
  std::vector<float> logprobs_;
  Finish finish_ = Finish::none;
};

}  // namespace colibri
