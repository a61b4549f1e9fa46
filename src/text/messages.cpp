// SPDX-License-Identifier: Apache-2.0
#include "text/messages.h"

#include <string>

namespace colibri {
namespace {

constexpr std::size_t kShownBytes = 64;  // of a client's word in an error message

bool is_text_type(std::string_view type) { return type == "text" || type == "input_text" || type == "output_text"; }

/// The text of one part of a content list.
Result<std::string_view> part_text(const Json& part) {
  if (part.is_string()) return std::string_view(part.as_string());
  const Json* type = part.find("type");
  if (type == nullptr || !type->is_string()) return data_error("a part must be an object with a type");
  if (!is_text_type(type->as_string()))
    return data_error("type " + (type->as_string().size() <= kShownBytes ? write_json(*type) : "of the part") +
                      " is not supported: this engine reads text alone");
  const Json* text = part.find("text");
  if (text == nullptr || !text->is_string()) return data_error("a text part must have a text");
  return std::string_view(text->as_string());
}

Json text_part(std::string_view text) { return Json::Object{{"type", Json("text")}, {"text", Json(text)}}; }

Result<Json> normalize_content(const Json* content, std::string_view role, const TemplateTraits& traits,
                               bool has_calls) {
  if (content == nullptr || content->is_null() || (content->is_string() && content->as_string().empty())) {
    if (has_calls && traits.wants_null_content) return Json();
    return traits.wants_parts ? Json(Json::Array{}) : Json("");
  }
  if (content->is_string()) return traits.wants_parts ? Json(Json::Array{text_part(content->as_string())}) : *content;
  if (!content->is_array()) return data_error("must be a string, a list of text parts, or null");
  const bool keep = traits.keeps_parts_of(role);
  Json::Array parts;
  std::string joined;
  for (std::size_t i = 0; i < content->as_array().size(); ++i) {
    auto text = part_text(content->as_array()[i]).at("[" + std::to_string(i) + "]");
    if (!text) return std::move(text).error();
    if (keep) {
      parts.push_back(text_part(*text));
    } else {
      joined += *text;
    }
  }
  return keep ? Json(std::move(parts)) : Json(std::move(joined));
}

Status normalize_calls(Json& calls, const TemplateTraits& traits) {
  if (!calls.is_array()) return data_error("must be a list");
  for (Json& call : calls.as_array()) {
    Json* function = call.find("function");
    Json* arguments = (function != nullptr ? *function : call).find("arguments");
    if (arguments == nullptr) continue;
    if (traits.wants_argument_text) {
      if (arguments->is_object()) *arguments = write_json(*arguments);
    } else if (arguments->is_string()) {
      auto object = parse_json(arguments->as_string());
      if (object.ok() && object->is_object()) *arguments = std::move(*object);
    }
  }
  return {};
}

Result<Json> normalize_message(const Json& message, const TemplateTraits& traits) {
  const Json* role = message.find("role");
  if (role == nullptr || !role->is_string()) return data_error("a message must be an object with a role");
  Json result = message;
  const bool renamed = role->as_string() == "developer" && !traits.knows_developer;
  if (renamed) result.set("role", "system");
  Json* calls = result.find("tool_calls");
  const bool has_calls = calls != nullptr && calls->is_array() && !calls->as_array().empty();
  if (calls != nullptr && !calls->is_null()) TRY_STATUS(normalize_calls(*calls, traits).at("tool_calls"));
  TRY(content, normalize_content(message.find("content"), renamed ? "system" : role->as_string(), traits, has_calls)
                   .at("content"));
  result.set("content", std::move(content));
  return result;
}

}  // namespace

bool TemplateTraits::keeps_parts_of(std::string_view role) const {
  if (wants_parts) return true;
  for (std::size_t i = 0; i < kRoles.size(); ++i)
    if (role == kRoles[i]) return keeps_parts[i];
  return role == "developer" && keeps_parts[1];  // as for the system's
}

Result<Json> normalize_messages(const Json& messages, const TemplateTraits& traits) {
  if (!messages.is_array()) return data_error("messages must be a list");
  Json::Array result;
  result.reserve(messages.as_array().size());
  for (std::size_t i = 0; i < messages.as_array().size(); ++i) {
    TRY(message, normalize_message(messages.as_array()[i], traits).at("messages[" + std::to_string(i) + "]"));
    result.push_back(std::move(message));
  }
  return Json(std::move(result));
}

}  // namespace colibri
