// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer.json and runs its parts in order: added tokens, normalizer, pre-tokenizer, BPE.
// Invariant: nothing of the JSON outlives parse(), and every id that encode() gives is below vocab_size().
#include "text/tokenizer.h"

#include <algorithm>

#include "base/file.h"
#include "text/fields.h"
#include "text/stream.h"

namespace colibri {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{128} << 20;  // published files have up to 34 MB
constexpr std::size_t kMaxFileValues = 4'000'000;                  // and up to 2 million values: they bound merges too
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;
// Vocabularies made from tiktoken files leave some ids between the words and the special tokens unused.
constexpr std::size_t kMaxUnusedIds = 1024;
constexpr std::size_t kMaxRangeWork = std::size_t{256} << 20;  // bytes normalized to place plain ranges: under a second

using Ids = std::vector<TokenId>;
using Stage = AddedTokens::Stage;
const Json kNull;

const Json& member(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value == nullptr ? kNull : *value;
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

std::size_t common_suffix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

}  // namespace

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& model_dir) {
  const auto path_of = [&](const char* name) { return (model_dir / name).string(); };
  const std::string path = path_of("tokenizer.json");
  if (!path_exists(path)) {
    for (const char* other : {"tokenizer.model", "tiktoken.model", "vocab.json"})
      if (path_exists(path_of(other)))
        return data_error(path + ": missing; make it from " + other +
                          ": python3 -c \"from transformers import AutoTokenizer as T; d = '" + model_dir.string() +
                          "'; T.from_pretrained(d).save_pretrained(d)\"");
    return data_error(path + ": missing");
  }
  TRY(json, read_file(path, kMaxFileBytes));
  return parse(json).at(path);
}

Result<Tokenizer> Tokenizer::parse(std::string_view json) {
  TRY(root, parse_json(json, {.depth = 32, .bytes = kMaxFileBytes, .values = kMaxFileValues}));
  Tokenizer tokenizer;
  TRY_STATUS(tokenizer.read(root));
  return tokenizer;
}

Status Tokenizer::read(const Json& root) {
  if (!root.is_object()) return data_error("must be a JSON object");
  const Json* model = root.find("model");
  if (model == nullptr || !model->is_object()) return data_error("no \"model\" object");
  TRY(added, parse_added_tokens(root));
  Ids reserved;
  for (const AddedToken& token : added)
    if (token.special) reserved.push_back(token.id);
  TRY(bpe, Bpe::parse(*model, reserved).at("model"));
  bpe_ = std::move(bpe);
  TRY(normalizer, Normalizer::parse(member(root, "normalizer")).at("normalizer"));
  normalizer_ = std::move(normalizer);
  TRY(tokens, AddedTokens::build(std::move(added), normalizer_).at("added_tokens"));
  added_ = std::move(tokens);
  TRY_STATUS(check_ids());
  vocab_size_ = std::max(bpe_.size(), added_.all().empty() ? 0 : added_.all().back().id + 1);
  TRY(pre_tokenizer, PreTokenizer::parse(member(root, "pre_tokenizer")).at("pre_tokenizer"));
  pre_tokenizer_ = std::move(pre_tokenizer);
  TRY(decoder, Decoder::parse(member(root, "decoder")).at("decoder"));
  decoder_ = std::move(decoder);
  return read_post_processor(member(root, "post_processor")).at("post_processor");
}

/// The vocabulary and the added tokens agree on who has which id.
Status Tokenizer::check_ids() const {
  std::size_t unused = 0;
  TokenId next = bpe_.size();
  for (const AddedToken& token : added_.all()) {
    const std::string_view there = bpe_.token(token.id);
    const std::optional<TokenId> elsewhere = bpe_.find(token.content);
    const auto at = [&] { return "added_tokens: " + shown(token.content) + ": id " + std::to_string(token.id); };
    if (!there.empty() && there != token.content)
      return data_error(at() + " is " + shown(there) + " in the vocabulary");
    if (elsewhere && *elsewhere != token.id)
      return data_error(at() + ", but " + std::to_string(*elsewhere) + " in the vocabulary");
    if (token.id < next) continue;
    unused += static_cast<std::size_t>(token.id - next);
    if (unused > kMaxUnusedIds)
      return data_error(at() + " is beyond the vocabulary of " + std::to_string(bpe_.size()) + " ids");
    next = token.id + 1;
  }
  for (TokenId id = 0; id < bpe_.size(); ++id)
    if (bpe_.token(id).empty() && added_.find(id) == nullptr)
      return data_error("model: vocab: no token has id " + std::to_string(id));
  return {};
}

Status Tokenizer::read_post_processor(const Json& config) {
  if (config.is_null()) return {};
  TRY(type, string_field(config, "type"));
  if (type == "ByteLevel") return {};  // moves offsets, no ids
  if (type == "Sequence") {
    TRY(parts, array_field(config, "processors"));
    for (const Json& part : *parts) TRY_STATUS(read_post_processor(part));
    return {};
  }
  if (type != "TemplateProcessing") return data_error("type " + shown(type) + " is not supported");
  TRY(items, array_field(config, "single"));
  Ids before, after;
  bool seen_text = false;
  for (const Json& item : *items) {
    if (item.find("Sequence") != nullptr) {
      if (seen_text) return data_error("\"single\" has the text twice");
      seen_text = true;
      continue;
    }
    TRY(name, string_field(member(item, "SpecialToken"), "id").at("single"));
    const Json& token = member(member(config, "special_tokens"), name);
    TRY(ids, array_field(token, "ids").at("special_tokens: " + shown(name)));
    for (const Json& id : *ids) {
      if (!id.is_int() || id.as_int() < 0 || id.as_int() >= vocab_size_)
        return data_error("special_tokens: " + shown(name) + ": an id that no token has");
      (seen_text ? after : before).push_back(static_cast<TokenId>(id.as_int()));
    }
  }
  if (!seen_text) return data_error("\"single\" lacks the text");
  prefix_.insert(prefix_.begin(), before.begin(), before.end());
  suffix_.insert(suffix_.end(), after.begin(), after.end());
  return {};
}

Result<Ids> Tokenizer::encode(std::string_view text, Specials specials) const {
  const ByteRange all{0, text.size()};
  return encode(text, specials == Specials::match ? std::span<const ByteRange>() : std::span(&all, 1));
}

Result<Ids> Tokenizer::encode(std::string_view text, std::span<const ByteRange> plain) const {
  if (text.size() > kMaxTextBytes) return data_error("a text of " + std::to_string(text.size()) + " bytes is too long");
  std::size_t last = 0;
  for (const ByteRange& range : plain) {
    CHECK(last <= range.begin && range.begin <= range.end && range.end <= text.size());
    last = range.end;
  }
  if (is_valid_utf8(text)) return encode_valid(text, plain);
  std::vector<ByteRange> ranges(plain.begin(), plain.end());
  const std::string repaired = repair_utf8(text, ranges);
  return encode_valid(repaired, ranges);
}

/// Where plain ranges lie after the normalizer: all but what the text outside of them gives by itself. What stands
/// before the first byte that depends on a range is what its own text alone normalizes to; likewise behind.
Result<std::vector<ByteRange>> Tokenizer::plain_after_normalizer(std::string_view text, std::string_view normalized,
                                                                 std::span<const ByteRange> plain) const {
  if (plain.size() * text.size() > kMaxRangeWork)
    return data_error(std::to_string(plain.size()) + " pieces of plain text in " + std::to_string(text.size()) +
                      " bytes are too many for special tokens that are normalized");
  std::vector<ByteRange> mapped;
  for (const ByteRange& range : plain) {
    TRY(before, normalizer_.apply(text.substr(0, range.begin)));
    TRY(behind, normalizer_.apply(text.substr(range.end)));
    const std::size_t begin =
        std::max(common_prefix(normalized, before), mapped.empty() ? std::size_t{0} : mapped.back().end);
    mapped.push_back({begin, std::max(begin, normalized.size() - common_suffix(normalized, behind))});
  }
  return mapped;
}

Result<Ids> Tokenizer::encode_valid(std::string_view text, std::span<const ByteRange> plain) const {
  Ids ids;
  ids.reserve(text.size() / 4 + 1);
  Bpe::Encoder encoder(bpe_);
  std::vector<AddedTokens::Segment> segments;
  TRY_STATUS(added_.split(text, Stage::before_normalizer, plain, segments));
  auto next = plain.begin();
  for (const auto& [segment, token] : segments) {
    if (token != nullptr) {
      ids.push_back(token->id);
      continue;
    }
    std::vector<ByteRange> within;
    while (next != plain.end() && next->end <= segment.begin) ++next;
    for (auto range = next; range != plain.end() && range->begin < segment.end; ++range)
      within.push_back(
          {std::max(range->begin, segment.begin) - segment.begin, std::min(range->end, segment.end) - segment.begin});
    TRY_STATUS(encode_segment(text.substr(segment.begin, segment.end - segment.begin), segment.begin == 0, within,
                              encoder, ids));
  }
  return ids;
}

/// A stretch between added tokens that are not normalized.
Status Tokenizer::encode_segment(std::string_view text, bool at_start, std::span<const ByteRange> plain,
                                 Bpe::Encoder& encoder, Ids& ids) const {
  TRY(normalized, normalizer_.apply(text).at("normalizer"));
  std::vector<ByteRange> mapped(plain.begin(), plain.end());
  if (added_.any(Stage::after_normalizer) && !normalizer_.empty()) {
    TRY(moved, plain_after_normalizer(text, normalized, plain).at("normalizer"));
    mapped = std::move(moved);
  }
  std::vector<AddedTokens::Segment> segments;
  TRY_STATUS(added_.split(normalized, Stage::after_normalizer, mapped, segments));
  for (const auto& [segment, token] : segments) {
    if (token != nullptr) {
      ids.push_back(token->id);
      continue;
    }
    TRY(words, pre_tokenizer_
                   .split(normalized.substr(segment.begin, segment.end - segment.begin), at_start && segment.begin == 0)
                   .at("pre_tokenizer"));
    for (const ByteRange& word : words.ranges)
      encoder.append(std::string_view(words.text).substr(word.begin, word.end - word.begin), ids);
  }
  return {};
}

Ids Tokenizer::add_special_tokens(std::span<const TokenId> ids) const {
  Ids all = prefix_;
  all.insert(all.end(), ids.begin(), ids.end());
  all.insert(all.end(), suffix_.begin(), suffix_.end());
  return all;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, skip_special);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text += detokenizer.flush();
}

bool Tokenizer::append_bytes(TokenId id, bool first, std::string& out) const {
  const AddedToken* added = added_.find(id);
  const std::string_view token = added != nullptr ? std::string_view(added->content) : bpe_.token(id);
  decoder_.append(token, added != nullptr, first, out);
  return !token.empty();
}

std::string Tokenizer::token_bytes(TokenId id) const {
  std::string bytes;
  append_bytes(id, false, bytes);
  return bytes;
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
  if (const AddedToken* added = added_.find(token)) return added->id;
  return bpe_.find(token);
}

bool Tokenizer::is_special(TokenId id) const {
  const AddedToken* added = added_.find(id);
  return added != nullptr && added->special;
}

}  // namespace colibri
