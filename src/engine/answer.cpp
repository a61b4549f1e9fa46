// SPDX-License-Identifier: Apache-2.0
// The stop token is an id of the answer but never its text; a stop string is neither shown nor waited behind.
#include "engine/answer.h"

#include <utility>

namespace colibri {

Answer::Answer(const Tokenizer* tokenizer, std::vector<std::string> stop) {
  CHECK(tokenizer != nullptr || stop.empty());
  if (tokenizer != nullptr) stream_.emplace(*tokenizer, TextStream::Options{.stops = std::move(stop)});
}

Answer::Piece Answer::push(const TokenEvent& event) {
  if (finish_ != Finish::none) return {"", finish_};
  Piece piece;
  finish_ = event.finish;
  if (event.id >= 0) {
    ids_.push_back(event.id);
    logprobs_.push_back(event.logprob);
    if (stream_ && event.finish != Finish::stop) piece.text = stream_->push(event.id);
  }
  if (stream_ && stream_->stopped()) {
    finish_ = Finish::stop;
  } else if (stream_ && finish_ != Finish::none) {
    piece.text += stream_->flush();
    if (stream_->stopped()) finish_ = Finish::stop;
  }
  piece.finish = finish_;
  text_ += piece.text;
  return piece;
}

std::string_view Answer::stop_string() const { return stream_ ? stream_->stop() : std::string_view(); }

}  // namespace colibri
