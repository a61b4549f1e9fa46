// SPDX-License-Identifier: Apache-2.0
// Incremental text. Invariant: pending_ is at most an unfinished code point, held_ at most a stop string less a byte.
#include "text/stream.h"

#include <algorithm>

namespace colibri {

std::string Detokenizer::push(TokenId id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  if (!tokenizer_->append_bytes(id, first_, pending_)) return {};
  first_ = false;
  return take(false);
}

std::string Detokenizer::flush() { return take(true); }

std::string Detokenizer::take(bool at_end) {
  std::string text;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const Utf8Step step = utf8_step(std::string_view(pending_).substr(at));
    if (step.cut && !at_end) break;
    step.valid ? text.append(pending_, at, step.length) : text.append(kReplacementCharacter);
    at += step.length;
  }
  pending_.erase(0, at);
  const Decoder::Strip& strip = tokenizer_->decoder_.strip_start();
  std::string_view rest = text;
  for (; at_start_ && stripped_ < strip.count && rest.starts_with(strip.character); ++stripped_)
    rest.remove_prefix(strip.character.size());
  at_start_ = at_start_ && rest.empty();
  return std::string(rest);
}

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop) : include_stop_(include_stop) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    std::vector<std::size_t> borders(text.size());
    for (std::size_t i = 1, border = 0; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = borders[border - 1];
      border += text[i] == text[border];
      borders[i] = border;
    }
    stops_.push_back({std::move(text), std::move(borders)});
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped()) return {};
  std::size_t held = 0;  // longest end of the input that begins a stop string
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Stop* found = nullptr;  // the longest stop string that ends here
    held = 0;
    for (Stop& stop : stops_) {
      while (stop.matched > 0 && stop.text[stop.matched] != text[i]) stop.matched = stop.borders[stop.matched - 1];
      stop.matched += stop.text[stop.matched] == text[i];
      held = std::max(held, stop.matched);
      if (stop.matched == stop.text.size() && (found == nullptr || found->text.size() < stop.matched)) found = &stop;
    }
    if (found == nullptr) continue;
    stop_ = found->text;
    std::string out = std::exchange(held_, {}).append(text.substr(0, i + 1));
    if (!include_stop_) out.resize(out.size() - stop_.size());
    return out;
  }
  if (text.empty()) return {};
  held_ += text;
  std::string out = held_.substr(0, held_.size() - held);
  held_.erase(0, out.size());
  return out;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace colibri
