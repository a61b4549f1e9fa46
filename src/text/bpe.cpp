// SPDX-License-Identifier: Apache-2.0
// Loads and runs byte-pair encoding. Invariant: of the pairs that stand beside each other, the one of lowest rank
// merges first, the leftmost of equals; the short and the long way give the same ids.
#include "text/bpe.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "text/fields.h"
#include "text/utf8.h"

namespace colibri {
namespace {

constexpr std::size_t kShortWord = 48;  // symbols up to which scanning beats a heap

bool looks_like_byte(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
}

/// "a b" or ["a", "b"].
Result<std::pair<std::string_view, std::string_view>> parse_merge(const Json& merge) {
  if (merge.is_string()) {
    const std::string_view text = merge.as_string();
    const std::size_t blank = text.find(' ');
    if (blank != std::string_view::npos && text.find(' ', blank + 1) == std::string_view::npos)
      return std::pair(text.substr(0, blank), text.substr(blank + 1));
  } else if (merge.is_array() && merge.as_array().size() == 2 && merge.as_array()[0].is_string() &&
             merge.as_array()[1].is_string()) {
    return std::pair<std::string_view, std::string_view>(merge.as_array()[0].as_string(),
                                                         merge.as_array()[1].as_string());
  }
  return data_error("must be \"a b\" or [\"a\", \"b\"]");
}

}  // namespace

std::optional<char> byte_of_token(std::string_view token) {
  if (!looks_like_byte(token)) return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc{} || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

Result<Bpe> Bpe::parse(const Json& model, std::span<const TokenId> reserved) {
  const Json* type = model.find("type");
  if (type != nullptr && (!type->is_string() || type->as_string() != "BPE"))
    return data_error("type " + (type->is_string() ? shown(type->as_string()) : "that is no string") +
                      " is not supported: Colibri reads BPE");
  Bpe bpe;
  TRY(prefix, optional_string_field(model, "continuing_subword_prefix"));
  TRY(suffix, optional_string_field(model, "end_of_word_suffix"));
  bpe.prefix_ = prefix;
  bpe.suffix_ = suffix;
  TRY(fuse_unknown, bool_field(model, "fuse_unk", false));
  bpe.fuse_unknown_ = fuse_unknown;
  TRY(ignore_merges, bool_field(model, "ignore_merges", false));
  bpe.ignore_merges_ = ignore_merges;
  TRY_STATUS(bpe.read_vocabulary(model).at("vocab"));
  TRY_STATUS(bpe.read_unknown(model));
  TRY_STATUS(bpe.read_merges(model, reserved).at("merges"));
  return bpe;
}

Status Bpe::read_vocabulary(const Json& model) {
  const Json* vocabulary = model.find("vocab");
  if (vocabulary == nullptr || !vocabulary->is_object()) return data_error("must be an object");
  const Json::Object& members = vocabulary->as_object();
  if (members.empty()) return data_error("is empty");
  std::size_t size = 0, bytes = 0;
  for (const auto& [token, id] : members) {
    if (token.empty()) return data_error("an empty token");
    if (token.size() > kMaxTokenBytes)
      return data_error("token " + shown(token) + " has " + std::to_string(token.size()) + " bytes; at most " +
                        std::to_string(kMaxTokenBytes));
    if (!id.is_int() || id.as_int() < 0 || static_cast<std::uint64_t>(id.as_int()) >= kMaxTokenIds)
      return data_error("token " + shown(token) + ": id " + write_json(id).substr(0, 24) + " is not from 0 to " +
                        std::to_string(kMaxTokenIds - 1));
    size = std::max(size, static_cast<std::size_t>(id.as_int()) + 1);
    bytes += token.size();
  }
  std::vector<const std::string*> tokens(size);
  for (const auto& [token, id] : members) {
    const std::string*& place = tokens[static_cast<std::size_t>(id.as_int())];
    if (place != nullptr)
      return data_error("tokens " + shown(*place) + " and " + shown(token) + " both have id " +
                        std::to_string(id.as_int()));
    place = &token;
  }
  letters_.reserve(bytes);
  begins_.reserve(size + 1);
  sorted_.reserve(members.size());
  for (std::size_t id = 0; id < size; ++id) {
    begins_.push_back(static_cast<std::uint32_t>(letters_.size()));
    if (tokens[id] == nullptr) continue;
    letters_.insert(letters_.end(), tokens[id]->begin(), tokens[id]->end());
    sorted_.push_back(static_cast<TokenId>(id));
    std::size_t length = 0;
    const char32_t character = code_point(*tokens[id], length);
    if (length == tokens[id]->size()) characters_.set(character, 0, id);
  }
  begins_.push_back(static_cast<std::uint32_t>(letters_.size()));
  std::sort(sorted_.begin(), sorted_.end(), [&](TokenId a, TokenId b) { return token(a) < token(b); });
  return {};
}

Status Bpe::read_unknown(const Json& model) {
  TRY(unknown, optional_string_field(model, "unk_token"));
  if (!unknown.empty()) {
    unknown_ = find(unknown);
    if (!unknown_) return data_error("unk_token " + shown(unknown) + " is not in the vocabulary");
  }
  TRY(byte_fallback, bool_field(model, "byte_fallback", false));
  if (!byte_fallback) return {};
  bytes_.assign(256, -1);
  for (const TokenId id : sorted_) {
    if (!looks_like_byte(token(id))) continue;
    const std::optional<char> byte = byte_of_token(token(id));
    if (!byte) return data_error("vocab: byte token " + shown(token(id)) + " is not from <0x00> to <0xFF>");
    bytes_[static_cast<unsigned char>(*byte)] = id;
  }
  return {};
}

Status Bpe::read_merges(const Json& model, std::span<const TokenId> reserved) {
  is_reserved_.resize(static_cast<std::size_t>(size()));
  for (const TokenId id : reserved)
    if (id < size()) is_reserved_[static_cast<std::size_t>(id)] = true;
  TRY(merges, array_field(model, "merges"));
  std::string joined;
  for (std::size_t rank = 0; rank < merges->size(); ++rank) {
    const auto place = [&] { return "merge " + std::to_string(rank); };
    auto merge = parse_merge((*merges)[rank]);
    if (!merge) return std::move(merge).error().at(place());
    const auto [left, right] = *merge;
    joined.assign(left).append(right.substr(std::min(right.size(), prefix_.size())));
    const std::optional<TokenId> ids[] = {find(left), find(right), find(joined)};
    const std::string_view names[] = {left, right, joined};
    for (int i = 0; i < 3; ++i)
      if (!ids[i]) return data_error(place() + ": " + shown(names[i]) + " is not in the vocabulary");
    if (is_reserved_[static_cast<std::size_t>(*ids[2])]) continue;
    merges_.set(static_cast<std::uint32_t>(*ids[0]), static_cast<std::uint32_t>(*ids[1]),
                std::uint64_t{rank} << 32 | static_cast<std::uint32_t>(*ids[2]));
  }
  return {};
}

std::string_view Bpe::token(TokenId id) const {
  if (id < 0 || id >= size()) return {};
  const std::size_t begin = begins_[static_cast<std::size_t>(id)], end = begins_[static_cast<std::size_t>(id) + 1];
  return {letters_.data() + begin, end - begin};
}

std::optional<TokenId> Bpe::find(std::string_view text) const {
  const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), text,
                                   [&](TokenId id, std::string_view wanted) { return token(id) < wanted; });
  if (at == sorted_.end() || token(*at) != text) return std::nullopt;
  return *at;
}

void Bpe::Encoder::append(std::string_view word, std::vector<TokenId>& out) {
  if (word.empty()) return;
  if (bpe_.ignore_merges_) {
    const std::optional<TokenId> whole = bpe_.find(word);
    if (whole && !bpe_.is_reserved_[static_cast<std::size_t>(*whole)]) {
      out.push_back(*whole);
      return;
    }
  }
  read(word);
  ids_.size() <= kShortWord ? merge_short(out) : merge_long(out);
}

/// The word's characters as ids_.
void Bpe::Encoder::read(std::string_view word) {
  ids_.clear();
  bool unknown_pending = false;  // an unknown stretch that further unknown characters may join
  const auto end_unknown = [&] {
    if (unknown_pending) ids_.push_back(*bpe_.unknown_);
    unknown_pending = false;
  };
  for (std::size_t at = 0, length = 0; at < word.size(); at += length) {
    const char32_t character = code_point(word.substr(at), length);
    std::optional<TokenId> id;
    piece_.assign(word.substr(at, length));
    if (bpe_.prefix_.empty() && bpe_.suffix_.empty()) {
      if (const std::uint64_t* found = bpe_.characters_.find(character, 0)) id = static_cast<TokenId>(*found);
    } else {
      if (at > 0) piece_.insert(0, bpe_.prefix_);
      if (at + length == word.size()) piece_ += bpe_.suffix_;
      id = bpe_.find(piece_);
    }
    if (id) {
      end_unknown();
      ids_.push_back(*id);
      continue;
    }
    const auto byte_id = [&](char byte) { return bpe_.bytes_[static_cast<unsigned char>(byte)]; };
    if (!bpe_.bytes_.empty() &&
        std::all_of(piece_.begin(), piece_.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
      for (const char byte : piece_) ids_.push_back(byte_id(byte));
    } else if (bpe_.unknown_) {
      if (!bpe_.fuse_unknown_) end_unknown();
      unknown_pending = true;
    }
  }
  end_unknown();
}

void Bpe::Encoder::merge_short(std::vector<TokenId>& out) {
  ranks_.clear();
  for (std::size_t i = 1; i < ids_.size(); ++i) ranks_.push_back(bpe_.merge_of(ids_[i - 1], ids_[i]));
  while (!ranks_.empty()) {
    const auto best = std::min_element(ranks_.begin(), ranks_.end());  // equal ranks are equal merges: the leftmost
    if (*best == kNoMerge) break;
    const auto place = best - ranks_.begin();
    const std::size_t left = static_cast<std::size_t>(place);
    ids_[left] = static_cast<TokenId>(*best & 0xFFFFFFFFu);
    ids_.erase(ids_.begin() + place + 1);
    ranks_.erase(best);
    if (left > 0) ranks_[left - 1] = bpe_.merge_of(ids_[left - 1], ids_[left]);
    if (left + 1 < ids_.size()) ranks_[left] = bpe_.merge_of(ids_[left], ids_[left + 1]);
  }
  out.insert(out.end(), ids_.begin(), ids_.end());
}

void Bpe::Encoder::push_candidate(std::int32_t left) {
  const Symbol& symbol = symbols_[static_cast<std::size_t>(left)];
  if (symbol.next < 0) return;
  const TokenId right = symbols_[static_cast<std::size_t>(symbol.next)].id;
  const std::uint64_t merge = bpe_.merge_of(symbol.id, right);
  if (merge == kNoMerge) return;
  heap_.push_back({static_cast<std::uint32_t>(merge >> 32), left, symbol.id, right});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void Bpe::Encoder::merge_long(std::vector<TokenId>& out) {
  constexpr TokenId kGone = -1;
  const auto n = static_cast<std::int32_t>(ids_.size());
  symbols_.clear();
  heap_.clear();
  for (std::int32_t i = 0; i < n; ++i)
    symbols_.push_back({ids_[static_cast<std::size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1});
  for (std::int32_t i = 0; i < n; ++i) push_candidate(i);
  const auto at = [&](std::int32_t place) -> Symbol& { return symbols_[static_cast<std::size_t>(place)]; };
  while (!heap_.empty()) {
    const Candidate best = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    Symbol& left = at(best.place);
    // Either symbol may have merged with another since this candidate was pushed.
    if (left.id != best.left || left.next < 0 || at(left.next).id != best.right) continue;
    Symbol& right = at(left.next);
    left.id = static_cast<TokenId>(bpe_.merge_of(best.left, best.right) & 0xFFFFFFFFu);
    right.id = kGone;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = best.place;
    if (left.previous >= 0) push_candidate(left.previous);
    push_candidate(best.place);
  }
  for (std::int32_t i = 0; i >= 0; i = at(i).next) out.push_back(at(i).id);
}

}  // namespace colibri
