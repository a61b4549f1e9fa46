// SPDX-License-Identifier: Apache-2.0
// The steps of a decoder. Invariant: a step that would need the end of the text is refused when the file is read.
#include "text/decoder.h"

#include "text/bpe.h"
#include "text/byte_level.h"
#include "text/fields.h"

namespace colibri {
namespace {

constexpr std::size_t kMaxSteps = 64;
constexpr std::size_t kMaxStrip = 1024;

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t found = 0; (found = text.find(from)) != std::string_view::npos;) {
    out.append(text.substr(0, found)).append(to);
    text.remove_prefix(found + from.size());
  }
  return out.append(text);
}

/// The bytes whose letters these are; the text itself where one is no letter of the byte alphabet.
std::string bytes_of_letters(std::string_view text) {
  std::string out;
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    const std::optional<char> byte = byte_of_character(code_point(text.substr(at), length));
    if (!byte) return std::string(text);
    out += *byte;
  }
  return out;
}

}  // namespace

Result<Decoder> Decoder::parse(const Json& config) {
  Decoder decoder;
  if (!config.is_null()) TRY_STATUS(decoder.add(config));
  return decoder;
}

Status Decoder::add(const Json& config) {
  TRY(type, string_field(config, "type"));
  if (type == "Sequence") {
    TRY(parts, array_field(config, "decoders"));
    for (const Json& part : *parts) TRY_STATUS(add(part));
    return {};
  }
  if (steps_.size() == kMaxSteps) return data_error("more than " + std::to_string(kMaxSteps) + " steps");
  if (type == "Fuse") {
    fused_ = true;
    return {};
  }
  if (type == "Strip") {
    TRY(character, string_field(config, "content"));
    if (character.empty() || last_character(character) != character)
      return data_error("Strip: \"content\" must be one character");
    TRY(start, count_field(config, "start", kMaxStrip).at("Strip"));
    TRY(stop, count_field(config, "stop", kMaxStrip).at("Strip"));
    if (!fused_) {
      steps_.emplace_back(StripToken{character, start, stop});
    } else if (stop > 0 || strip_start_.count > 0) {
      return data_error("Strip at the end of the fused text is not supported");
    } else {
      strip_start_ = {character, start};
    }
    return {};
  }
  if (fused_ && (type == "Replace" || type == "Metaspace" || type == "ByteFallback" || type == "ByteLevel"))
    return data_error(type + " after Fuse is not supported");
  if (type == "Replace") {
    const Json* pattern = config.find("pattern");
    if (pattern == nullptr) return data_error("Replace: no \"pattern\"");
    TRY(from, string_field(*pattern, "String").at("Replace"));
    if (from.empty()) return data_error("Replace: an empty pattern");
    TRY(to, string_field(config, "content"));
    if (to.size() > kMaxTokenBytes) return data_error("Replace: \"content\" is too long");
    steps_.emplace_back(Replace{from, to});
  } else if (type == "Metaspace") {
    TRY(given, optional_string_field(config, "replacement"));
    TRY(scheme, optional_string_field(config, "prepend_scheme"));
    TRY(prefix, bool_field(config, "add_prefix_space", true));
    steps_.emplace_back(Metaspace{given.empty() ? "\u2581" : given, prefix && scheme != "never"});
  } else if (type == "ByteFallback") {
    steps_.emplace_back(ByteFallback{});
  } else if (type == "ByteLevel") {
    steps_.emplace_back(ByteLevel{});
    fused_ = true;
  } else {
    return data_error("type " + shown(type) + " is not supported");
  }
  return {};
}

void Decoder::append(std::string_view token, bool added, bool first, std::string& out) const {
  std::string text(token);
  for (const Step& step : steps_) {
    if (const auto* replace = std::get_if<Replace>(&step)) {
      text = replaced(text, replace->from, replace->to);
    } else if (const auto* strip = std::get_if<StripToken>(&step)) {
      std::string_view rest = text;
      for (std::size_t i = 0; i < strip->start && rest.starts_with(strip->character); ++i)
        rest.remove_prefix(strip->character.size());
      for (std::size_t i = 0; i < strip->stop && rest.ends_with(strip->character); ++i)
        rest.remove_suffix(strip->character.size());
      text = std::string(rest);
    } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
      text = replaced(text, metaspace->mark, first && metaspace->drop_in_first ? "" : " ");
    } else if (std::holds_alternative<ByteLevel>(step)) {
      if (!added) text = bytes_of_letters(text);
    } else if (const std::optional<char> byte = byte_of_token(text)) {
      out += *byte;  // what follows in the sequence would see a byte, not text
      return;
    }
  }
  out += text;
}

}  // namespace colibri
