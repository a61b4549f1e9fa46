// SPDX-License-Identifier: Apache-2.0
// Finds added tokens by a trie. Invariant: n times the longest token at most.
#include "text/added_tokens.h"

#include <algorithm>

#include "text/fields.h"

namespace colibri {
namespace {

constexpr std::size_t kMaxAddedTokens = 1 << 16;

Result<AddedToken> parse_added_token(const Json& config) {
  AddedToken token;
  TRY(content, string_field(config, "content"));
  if (content.empty()) return data_error("an empty token");
  if (content.size() > kMaxTokenBytes)
    return data_error("token " + shown(content) + " has " + std::to_string(content.size()) + " bytes; at most " +
                      std::to_string(kMaxTokenBytes));
  token.content = content;
  TRY(id, count_field(config, "id", kMaxTokenIds - 1).at("token " + shown(content)));
  token.id = static_cast<TokenId>(id);
  TRY(special, bool_field(config, "special", false));
  token.special = special;
  TRY(normalized, bool_field(config, "normalized", !special));
  token.normalized = normalized;
  TRY(lstrip, bool_field(config, "lstrip", false));
  token.lstrip = lstrip;
  TRY(rstrip, bool_field(config, "rstrip", false));
  token.rstrip = rstrip;
  TRY(single_word, bool_field(config, "single_word", false));
  token.single_word = single_word;
  return token;
}

bool overlap(const ByteRange& a, const ByteRange& b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

Result<std::vector<AddedToken>> parse_added_tokens(const Json& tokenizer) {
  std::vector<AddedToken> tokens;
  const Json* config = tokenizer.find("added_tokens");
  if (config == nullptr || config->is_null()) return tokens;
  TRY(entries, array_field(tokenizer, "added_tokens"));
  if (entries->size() > kMaxAddedTokens)
    return data_error("added_tokens: " + std::to_string(entries->size()) + " tokens; at most " +
                      std::to_string(kMaxAddedTokens));
  for (const Json& entry : *entries) {
    TRY(token, parse_added_token(entry).at("added_tokens"));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Result<AddedTokens> AddedTokens::build(std::vector<AddedToken> tokens, const Normalizer& normalizer) {
  AddedTokens added;
  added.tokens_ = std::move(tokens);
  auto& all = added.tokens_;
  std::sort(all.begin(), all.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i].id == all[i - 1].id)
      return data_error(shown(all[i - 1].content) + " and " + shown(all[i].content) + " both have id " +
                        std::to_string(all[i].id));
    added.by_content_.push_back(static_cast<std::int32_t>(i));
  }
  const auto content = [&](std::int32_t place) -> std::string_view {
    return all[static_cast<std::size_t>(place)].content;
  };
  std::sort(added.by_content_.begin(), added.by_content_.end(),
            [&](std::int32_t a, std::int32_t b) { return content(a) < content(b); });
  for (std::size_t i = 1; i < all.size(); ++i)
    if (content(added.by_content_[i]) == content(added.by_content_[i - 1]))
      return data_error(shown(content(added.by_content_[i])) + " is there twice");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const AddedToken& token = all[i];
    const auto place = static_cast<std::int32_t>(i);
    if (token.normalized) {
      TRY(form, normalizer.apply(token.content));
      if (!form.empty()) added.after_.add(form, place);
    } else {
      added.before_.add(token.content, place);
    }
    if (token.single_word && !added.word_character_) {
      TRY(word_character, Regex::compile("[" + std::string(kRustWord) + "]"));
      added.word_character_.emplace(std::move(word_character));
    }
  }
  return added;
}

void AddedTokens::Trie::add(std::string_view text, std::int32_t token) {
  if (terminals.empty()) terminals.push_back(-1);
  begins[static_cast<unsigned char>(text[0])] = true;
  std::uint32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::uint64_t* next = edges.find(node, byte)) {
      node = static_cast<std::uint32_t>(*next);
    } else {
      const auto created = static_cast<std::uint32_t>(terminals.size());
      edges.set(node, byte, created);
      terminals.push_back(-1);
      node = created;
    }
  }
  terminals[node] = token;
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto at = std::lower_bound(tokens_.begin(), tokens_.end(), id,
                                   [](const AddedToken& token, TokenId wanted) { return token.id < wanted; });
  return at == tokens_.end() || at->id != id ? nullptr : &*at;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto token = [&](std::int32_t place) -> const AddedToken& { return tokens_[static_cast<std::size_t>(place)]; };
  const auto at =
      std::lower_bound(by_content_.begin(), by_content_.end(), content,
                       [&](std::int32_t place, std::string_view wanted) { return token(place).content < wanted; });
  return at == by_content_.end() || token(*at).content != content ? nullptr : &token(*at);
}

Result<bool> AddedTokens::touches_word(std::string_view text, ByteRange match) const {
  const std::string_view before = last_character(text.substr(0, match.begin));
  const std::string_view after = text.substr(match.end);
  Regex::Matcher matcher(*word_character_);
  std::vector<ByteRange> found;
  TRY_STATUS(matcher.find_all(before, found));
  if (!after.empty()) TRY_STATUS(matcher.find_all(after.substr(0, utf8_step(after).length), found));
  return !found.empty();
}

Status AddedTokens::split(std::string_view text, Stage stage, std::span<const ByteRange> plain,
                          std::vector<Segment>& out) const {
  const Trie& tokens = trie(stage);
  std::size_t done = 0;  // end of the last segment
  auto range = plain.begin();
  for (std::size_t at = 0; at < text.size() && !tokens.terminals.empty();) {
    if (!tokens.begins[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    std::uint32_t node = 0;
    std::int32_t longest = -1;
    ByteRange match{at, at};
    for (std::size_t end = at; end < text.size();) {
      const std::uint64_t* next = tokens.edges.find(node, static_cast<unsigned char>(text[end]));
      if (next == nullptr) break;
      node = static_cast<std::uint32_t>(*next);
      ++end;
      if (tokens.terminals[node] < 0) continue;
      longest = tokens.terminals[node];
      match.end = end;
    }
    if (longest < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(longest)];
    while (range != plain.end() && range->end <= match.begin) ++range;
    if (token.special && range != plain.end() && overlap(*range, match)) {
      // Text that is plain throughout is passed over as a whole; what only touches plain text may hide another token.
      const bool inside = range->begin <= match.begin && match.end <= range->end;
      at = inside ? match.end : at + 1;
      continue;
    }
    at = match.end;
    if (token.single_word) {
      TRY(touches, touches_word(text, match));
      if (touches) continue;
    }
    if (token.lstrip) match.begin -= trailing_white_space(text.substr(done, match.begin - done));
    if (token.rstrip) at = match.end += leading_white_space(text.substr(match.end));
    if (done < match.begin) out.push_back({{done, match.begin}, nullptr});
    out.push_back({match, &token});
    done = match.end;
  }
  if (done < text.size()) out.push_back({{done, text.size()}, nullptr});
  return {};
}

}  // namespace colibri
