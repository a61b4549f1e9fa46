// SPDX-License-Identifier: Apache-2.0
// Reading is in three parts: a body into JSON, plain fields by kind and range, and the lists of messages and tools.
#include "server/openai_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "text/utf8.h"

namespace colibri {
namespace {

constexpr std::size_t kMaxMessages = 2048;
constexpr std::size_t kMaxTools = 128;
constexpr std::size_t kMaxNameBytes = 256;
constexpr std::size_t kMaxStops = 4;
constexpr std::size_t kMaxStopBytes = 256;
constexpr std::size_t kMaxStopIds = 128;
constexpr std::size_t kMaxBiases = 1024;
constexpr std::size_t kMaxValues = 500'000;  // of the body's JSON
constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

/// Fields whose meaning we do not offer: refused unless they ask for nothing.
constexpr std::array kUnsupported = {
    "functions",
    "function_call",
    "prompt_logprobs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "guided_decoding",
    "response_schema",
    "structured_outputs",
    "truncate_prompt_tokens",
    "bad_words",
    "continue_final_message",
    "include_stop_str_in_output",
    "add_special_tokens",
    "echo",
    "audio",
    "prefix",
};

/// Template variables that are not the client's to set.
constexpr std::array kReserved = {
    "messages",
    "tools",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "conversation",
    "tokenize",
    "return_dict",
    "return_tensors",
    "tokenizer_kwargs",
    "padding",
    "truncation",
    "max_length",
    "bos_token",
    "eos_token",
    "pad_token",
    "unk_token",
};

bool asks_for_nothing(const Json& value) {
  return value.is_null() || (value.is_bool() && !value.as_bool()) || (value.is_int() && value.as_int() == 0) ||
         (value.is_string() && value.as_string().empty()) || (value.is_array() && value.as_array().empty()) ||
         (value.is_object() && value.as_object().empty());
}

bool is_printable(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

/// The members of one object. Keeps the first error; a member that is missing or null reads as empty.
class Fields {
 public:
  Fields(const Json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)), known_(object.as_object().size()) {}

  const Json* find(std::string_view name) {
    const auto& members = object_.as_object();
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i].first != name) continue;
      known_[i] = true;
      return members[i].second.is_null() ? nullptr : &members[i].second;
    }
    return nullptr;
  }

  std::optional<bool> boolean(std::string_view name) {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_bool()) return value->as_bool();
    refuse(name, "must be true or false");
    return std::nullopt;
  }

  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high) {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_int() && value->as_int() >= low && value->as_int() <= high) return value->as_int();
    refuse(name, "must be an integer from " + std::to_string(low) + " to " + std::to_string(high));
    return std::nullopt;
  }

  /// `above`: the lower end itself is refused.
  std::optional<float> number(std::string_view name, int low, int high, bool above = false) {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_number()) {
      const double number = value->as_double();
      if ((above ? number > low : number >= low) && number <= high) return static_cast<float>(number);
    }
    refuse(name, "must be a number " + std::string(above ? "above " : "from ") + std::to_string(low) +
                     (above ? ", at most " : " to ") + std::to_string(high));
    return std::nullopt;
  }

  const std::string* text(std::string_view name) {
    const Json* value = find(name);
    if (value == nullptr) return nullptr;
    if (value->is_string()) return &value->as_string();
    refuse(name, "must be a string");
    return nullptr;
  }

  const Json::Array* array(std::string_view name) {
    const Json* value = find(name);
    if (value == nullptr) return nullptr;
    if (value->is_array()) return &value->as_array();
    refuse(name, "must be a list");
    return nullptr;
  }

  const Json* object(std::string_view name) {
    const Json* value = find(name);
    if (value == nullptr || value->is_object()) return value;
    refuse(name, "must be an object");
    return nullptr;
  }

  void refuse(std::string_view name, std::string_view why) {
    const std::string param = prefix_ + std::string(name);
    fail(invalid_value(param, param + ": " + std::string(why)));
  }
  void refuse_unsupported(std::string_view name, std::string_view why) {
    const std::string param = prefix_ + std::string(name);
    fail(unsupported(param, param + ": " + std::string(why)));
  }
  void fail(ApiError error) {
    if (!error_) error_ = std::move(error);
  }

  std::optional<ApiError>& error() { return error_; }
  std::vector<std::string> unknown() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < known_.size(); ++i)
      if (!known_[i]) names.push_back(object_.as_object()[i].first);
    return names;
  }

 private:
  const Json& object_;
  const std::string prefix_;
  std::vector<bool> known_;
  std::optional<ApiError> error_;
};

std::optional<ApiError> check_function(const Json* function, const std::string& place, bool is_call) {
  if (function == nullptr || !function->is_object()) return invalid_value(place, place + ": must be an object");
  Fields fields(*function, place + ".");
  const std::string* name = fields.text("name");
  if (!fields.error() && (name == nullptr || name->empty() || name->size() > kMaxNameBytes || !is_printable(*name)))
    fields.refuse("name", "must be a string of 1 to 256 printable bytes");
  if (is_call) {
    const Json* arguments = fields.find("arguments");
    if (arguments == nullptr || !(arguments->is_string() || arguments->is_object()))
      fields.refuse("arguments", "must be a string of JSON");
  } else {
    fields.text("description");
    fields.object("parameters");
    fields.boolean("strict");
  }
  return fields.error();
}

std::optional<ApiError> check_tools(const Json::Array& tools) {
  if (tools.size() > kMaxTools) return invalid_value("tools", "tools: at most 128");
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string place = "tools[" + std::to_string(i) + "]";
    if (!tools[i].is_object()) return invalid_value(place, place + ": must be an object");
    const Json* type = tools[i].find("type");
    if (type == nullptr || *type != Json("function"))
      return invalid_value(place + ".type", place + ".type: must be \"function\"");
    if (auto wrong = check_function(tools[i].find("function"), place + ".function", false)) return wrong;
  }
  return std::nullopt;
}

std::optional<ApiError> check_content(const Json* content, const std::string& place, bool optional) {
  if (content == nullptr || content->is_null()) {
    if (optional) return std::nullopt;
    return invalid_value(place, place + ": must be a string or a list of text parts");
  }
  if (content->is_string()) return std::nullopt;
  if (!content->is_array()) return invalid_value(place, place + ": must be a string or a list of text parts");
  for (std::size_t i = 0; i < content->as_array().size(); ++i) {
    const Json& part = content->as_array()[i];
    const Json* type = part.find("type");
    const Json* text = part.find("text");
    const bool known =
        type != nullptr && (*type == Json("text") || *type == Json("input_text") || *type == Json("output_text"));
    if (!known || text == nullptr || !text->is_string()) {
      const std::string part_place = place + "[" + std::to_string(i) + "]";
      return invalid_value(part_place, part_place + ": must be {\"type\": \"text\", \"text\": ...}");
    }
  }
  return std::nullopt;
}

std::optional<ApiError> check_message(const Json& message, const std::string& place) {
  if (!message.is_object()) return invalid_value(place, place + ": must be an object");
  constexpr std::string_view roles[] = {"system", "developer", "user", "assistant", "tool"};
  const Json* role = message.find("role");
  if (role == nullptr || !role->is_string() ||
      std::find(std::begin(roles), std::end(roles), role->as_string()) == std::end(roles))
    return invalid_value(place + ".role", place + ".role: must be system, developer, user, assistant or tool");
  Fields fields(message, place + ".");
  fields.text("name");
  fields.text("tool_call_id");
  const Json::Array* calls = fields.array("tool_calls");
  if (calls != nullptr && role->as_string() != "assistant")
    fields.refuse("tool_calls", "only an assistant calls tools");
  if (calls != nullptr && calls->size() > kMaxTools) fields.refuse("tool_calls", "at most 128");
  if (fields.error()) return fields.error();
  for (std::size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
    const std::string call_place = place + ".tool_calls[" + std::to_string(i) + "]";
    const Json& entry = (*calls)[i];
    if (!entry.is_object()) return invalid_value(call_place, call_place + ": must be an object");
    if (const Json* type = entry.find("type"); type != nullptr && *type != Json("function"))
      return invalid_value(call_place + ".type", call_place + ".type: must be \"function\"");
    if (auto wrong = check_function(entry.find("function"), call_place + ".function", true)) return wrong;
  }
  return check_content(message.find("content"), place + ".content", calls != nullptr && !calls->empty());
}

std::optional<ApiError> check_messages(const Json* messages) {
  if (messages == nullptr || !messages->is_array() || messages->as_array().empty() ||
      messages->as_array().size() > kMaxMessages)
    return invalid_value("messages", "messages: must be a list of 1 to 2048 messages");
  for (std::size_t i = 0; i < messages->as_array().size(); ++i)
    if (auto wrong = check_message(messages->as_array()[i], "messages[" + std::to_string(i) + "]")) return wrong;
  return std::nullopt;
}

void read_stop(Fields& fields, ChatCall& call) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return;
  const Json::Array one{*stop};
  const Json::Array& all = stop->is_array() ? stop->as_array() : one;
  if (all.size() > kMaxStops) return fields.refuse("stop", "at most 4 strings");
  for (const Json& text : all) {
    if (!text.is_string() || text.as_string().empty() || text.as_string().size() > kMaxStopBytes)
      return fields.refuse("stop", "must be a string, or a list of up to 4, each of 1 to 256 bytes");
    call.stop.push_back(text.as_string());
  }
}

void read_stop_ids(Fields& fields, ChatCall& call) {
  const Json::Array* ids = fields.array("stop_token_ids");
  if (ids == nullptr) return;
  if (ids->size() > kMaxStopIds) return fields.refuse("stop_token_ids", "at most 128 tokens");
  for (const Json& id : *ids) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() >= kMaxVocab)
      return fields.refuse("stop_token_ids", "must be a list of token ids");
    call.stop_ids.push_back(static_cast<std::int32_t>(id.as_int()));
  }
}

void read_logit_bias(Fields& fields, ChatCall& call) {
  const Json* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  if (biases->as_object().size() > kMaxBiases) return fields.refuse("logit_bias", "at most 1024 tokens");
  for (const auto& [key, value] : biases->as_object()) {
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || !value.is_number() ||
        !(std::abs(value.as_double()) <= 100.0))
      return fields.refuse("logit_bias", "must map token ids, as strings, to numbers from -100 to 100");
    call.sampling.logit_bias.push_back({id, static_cast<float>(value.as_double())});
  }
}

void read_sampling(Fields& fields, ChatCall& call) {
  SamplingWishes& wishes = call.sampling;
  wishes.temperature = fields.number("temperature", 0, 2);
  wishes.top_p = fields.number("top_p", 0, 1, true);
  wishes.min_p = fields.number("min_p", 0, 1);
  wishes.repetition_penalty = fields.number("repetition_penalty", 0, 10, true);
  wishes.presence_penalty = fields.number("presence_penalty", -2, 2);
  wishes.frequency_penalty = fields.number("frequency_penalty", -2, 2);
  if (const auto top_k = fields.integer("top_k", -1, kMaxInt))
    wishes.top_k = static_cast<int>(std::max<std::int64_t>(*top_k, 0));
  if (const auto seed =
          fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()))
    wishes.seed = static_cast<std::uint64_t>(*seed);
  read_logit_bias(fields, call);
}

void read_lengths(Fields& fields, ChatCall& call) {
  const auto old_name = fields.integer("max_tokens", 1, kMaxInt);
  const auto new_name = fields.integer("max_completion_tokens", 1, kMaxInt);
  if (const auto most = new_name ? new_name : old_name) call.max_tokens = static_cast<int>(*most);
  call.n = static_cast<int>(fields.integer("n", 1, 8).value_or(1));
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, 20);
  if (top && !logprobs) fields.refuse("top_logprobs", "wants logprobs: true");
  if (logprobs) call.top_logprobs = static_cast<int>(top.value_or(0));
  call.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  call.min_tokens = static_cast<int>(fields.integer("min_tokens", 0, kMaxInt).value_or(0));
  read_stop_ids(fields, call);
}

void read_stream(Fields& fields, ChatCall& call) {
  call.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!call.stream) return fields.refuse("stream_options", "only with stream: true");
  Fields inner(*options, "stream_options.");
  call.include_usage = inner.boolean("include_usage").value_or(false);
  call.continuous_usage = inner.boolean("continuous_usage_stats").value_or(false);
  if (inner.error()) fields.fail(*inner.error());
}

void read_tools(Fields& fields, ChatCall& call) {
  const Json::Array* tools = fields.array("tools");
  if (tools != nullptr) {
    if (auto wrong = check_tools(*tools)) fields.fail(std::move(*wrong));
    if (!tools->empty()) call.tools = *tools;
  }
  call.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == Json("auto")) return;
  if (*choice == Json("none")) {  // a tool that is not shown is not called
    call.tools = Json();
  } else if (choice->is_object() || *choice == Json("required")) {
    fields.refuse_unsupported("tool_choice", "only \"auto\" and \"none\"; this version cannot force a call");
  } else {
    fields.refuse("tool_choice", "must be \"auto\" or \"none\"");
  }
}

void read_template(Fields& fields, ChatCall& call) {
  if (fields.find("chat_template") != nullptr)
    fields.refuse_unsupported("chat_template", "the template is the model's own");
  if (const auto add = fields.boolean("add_generation_prompt"); add && !*add)
    fields.refuse_unsupported("add_generation_prompt", "only true");
  const Json* variables = fields.object("chat_template_kwargs");
  if (variables == nullptr) return;
  for (const auto& [name, _] : variables->as_object())
    if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end())
      return fields.refuse_unsupported("chat_template_kwargs." + name, "this variable is not the client's to set");
  call.variables = *variables;
}

void read_refused(Fields& fields) {
  for (const char* name : kUnsupported)
    if (const Json* value = fields.find(name); value != nullptr && !asks_for_nothing(*value))
      fields.refuse_unsupported(name, "this version does not have it");
  if (const auto skip = fields.boolean("skip_special_tokens"); skip && !*skip)
    fields.refuse_unsupported("skip_special_tokens", "only true");
  if (const Json* format = fields.object("response_format")) {
    const Json* type = format->find("type");
    if (type == nullptr || !type->is_string()) {
      fields.refuse("response_format.type", "must be a string");
    } else if (type->as_string() != "text") {
      fields.refuse_unsupported("response_format", "only {\"type\": \"text\"}; this version cannot force a format");
    }
  }
  for (const char* name : {"user", "cache_salt"})
    if (const std::string* text = fields.text(name); text != nullptr && (text->size() > 256 || !is_printable(*text)))
      fields.refuse(name, "at most 256 bytes, all printable");
}

/// Whether an escaped half of a surrogate pair stands alone; asked only where the parser has refused the text.
bool has_lone_surrogate(std::string_view text) {
  const auto is_half = [&](std::size_t at, std::string_view third) {  // u, d, and one of `third`
    return at + 6 <= text.size() && text[at] == '\\' && text[at + 1] == 'u' && (text[at + 2] | 0x20) == 'd' &&
           third.find(static_cast<char>(text[at + 3] | 0x20)) != std::string_view::npos;
  };
  constexpr std::string_view high = "89ab";
  constexpr std::string_view low = "cdef";
  for (std::size_t at = text.find('\\'); at < text.size(); at = text.find('\\', at)) {
    if (is_half(at, high) && is_half(at + 6, low)) {
      at += 12;
    } else if (is_half(at, high) || is_half(at, low)) {
      return true;
    } else {
      at += 2;
    }
  }
  return false;
}

std::optional<ApiError> parse_body(std::string_view body, Json& json) {
  if (!is_valid_utf8(body)) return ApiError{.code = "invalid_utf8", .message = "the body is not valid UTF-8"};
  auto parsed = parse_json(body, {.depth = 64, .bytes = body.size(), .values = kMaxValues});
  if (!parsed.ok()) {
    const std::string& why = parsed.error().message;
    return ApiError{.code = why.find("nested too deep") != std::string::npos ? "json_too_deep"
                            : has_lone_surrogate(body)                       ? "invalid_utf8"
                                                                             : "invalid_json",
                    .message = why};
  }
  json = std::move(*parsed);
  if (!json.is_object()) return ApiError{.code = "invalid_json", .message = "the body must be a JSON object"};
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> parse_chat_call(std::string_view body, ChatCall& call, std::vector<std::string>& unknown) {
  Json json;
  if (auto wrong = parse_body(body, json)) return wrong;
  Fields fields(json);
  if (const std::string* model = fields.text("model")) call.model = *model;
  const Json* messages = fields.find("messages");
  if (auto wrong = check_messages(messages)) fields.fail(std::move(*wrong));
  if (messages != nullptr) call.messages = *messages;
  read_sampling(fields, call);
  read_stop(fields, call);
  read_lengths(fields, call);
  read_stream(fields, call);
  read_tools(fields, call);
  read_template(fields, call);
  read_refused(fields);
  unknown = fields.unknown();
  return fields.error();
}

}  // namespace colibri
