// SPDX-License-Identifier: Apache-2.0
// Rendering, and the probes that find out what a template understands. Loading is in template_load.cpp.
#include "text/template.h"

#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/program.h"

namespace colibri {
namespace {

using jinja::Interpreter;
using jinja::Value;

/// These role names are words of the templates' own, not of the client: they may be part of a special token.
bool is_known_role(std::string_view role) {
  static constexpr std::string_view kKnown[] = {"system", "developer", "user", "assistant", "tool", "function"};
  return std::find(std::begin(kKnown), std::end(kKnown), role) != std::end(kKnown);
}

Value message_list(jinja::Heap& heap, const Json& messages) {
  jinja::List* list = heap.list();
  for (const Json& message : messages.as_array()) {
    const Value value = heap.from_json(message, true);
    const Json* role = message.find("role");
    if (role != nullptr && role->is_string() && is_known_role(role->as_string()))
      heap.set(const_cast<jinja::Dict&>(value.dict()), heap.view("role"), heap.view(role->as_string()));
    heap.push(*list, value);
  }
  return list;
}

bool has_items(const Json* json) { return json != nullptr && json->is_array() && !json->as_array().empty(); }

}  // namespace

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

Result<ChatTemplate> ChatTemplate::compile(std::string_view source, SpecialTokens tokens,
                                           std::optional<std::string_view> tool_source) {
  ChatTemplate result;
  result.tokens_ = std::move(tokens);
  TRY(program, jinja::compile(source).at("chat template"));
  result.main_.program = program;
  result.probe(result.main_);
  if (tool_source) {
    TRY(tool_program, jinja::compile(*tool_source).at("chat template tool_use"));
    result.with_tools_.emplace();
    result.with_tools_->program = tool_program;
    result.probe(*result.with_tools_);
  }
  return result;
}

const ChatTemplate::Compiled& ChatTemplate::choose(const Json* tools) const {
  return with_tools_ && has_items(tools) ? *with_tools_ : main_;
}

Result<RenderedPrompt> ChatTemplate::render_chat(const ChatRequest& request, const std::tm& now) const {
  CHECK(request.messages != nullptr);
  const Compiled& compiled = choose(request.tools);
  TRY(messages, normalize_messages(*request.messages, compiled.traits));
  return render(*compiled.program, messages, request, now, jinja::Effort::request);
}

Result<RenderedPrompt> ChatTemplate::render(const jinja::Program& program, const Json& messages,
                                            const ChatRequest& request, const std::tm& now,
                                            jinja::Effort effort) const {
  auto rendered = jinja::render(
      program, now,
      [&](Interpreter& in) {
        jinja::Heap& heap = in.heap();
        if (request.variables != nullptr && request.variables->is_object())
          for (const auto& [name, value] : request.variables->as_object()) in.define(name, heap.from_json(value, true));
        for (const auto& [name, text] : tokens_) in.define(name, heap.view(text));
        in.define("messages", message_list(heap, messages));
        in.define("tools", has_items(request.tools) ? heap.from_json(*request.tools, true) : Value::none());
        in.define("add_generation_prompt", Value::boolean(request.add_generation_prompt));
        if (request.variables == nullptr || request.variables->find("documents") == nullptr)
          in.define("documents", Value::none());
      },
      effort);
  if (!rendered) return std::move(rendered).error().at("chat template");
  return RenderedPrompt{std::move(rendered->text), std::move(rendered->tainted)};
}

Result<std::string> ChatTemplate::render_raw(const Json& variables, const std::tm& now) const {
  if (!variables.is_object()) return data_error("template variables must be a JSON object");
  const Compiled& compiled = choose(variables.find("tools"));
  auto rendered = jinja::render(*compiled.program, now, [&](Interpreter& in) {
    for (const auto& [name, text] : tokens_) in.define(name, in.heap().view(text));
    for (const char* name : {"tools", "documents"}) in.define(name, Value::none());
    in.define("add_generation_prompt", Value::boolean(false));
    for (const auto& [name, value] : variables.as_object()) in.define(name, in.heap().from_json(value, false));
  });
  if (!rendered) return std::move(rendered).error().at("chat template");
  return std::move(rendered->text);
}

void ChatTemplate::probe(Compiled& compiled) const {
  static constexpr const char* kFirst = "colibri-probe-one";
  static constexpr const char* kSecond = "colibri-probe-two";
  const std::tm now = local_now();
  const auto message = [](const char* role, Json content) {
    return Json(Json::Object{{"role", Json(role)}, {"content", std::move(content)}});
  };
  const auto call_message = [&](Json content, Json arguments) {
    Json call = Json::Object{{"name", Json("probe")}, {"arguments", std::move(arguments)}};
    Json entry = Json::Object{{"id", Json("probe0000")}, {"type", Json("function")}, {"function", std::move(call)}};
    Json result = message("assistant", std::move(content));
    result.set("tool_calls", Json::Array{std::move(entry)});
    return result;
  };
  const auto result_message = [&](Json content) {
    Json result = message("tool", std::move(content));
    result.set("name", "probe");
    result.set("tool_call_id", "probe0000");
    return result;
  };
  const Json tools = Json::Array{Json::Object{
      {"type", Json("function")},
      {"function",
       Json::Object{{"name", Json("probe")},
                    {"description", Json("probe")},
                    {"parameters", Json::Object{{"type", Json("object")}, {"properties", Json::Object{}}}}}}}};
  bool needs_tools = false;
  const auto rendered = [&](Json::Array messages, bool last_is_user = true) {
    const Json list(std::move(messages));
    ChatRequest request;
    request.messages = &list;
    if (needs_tools) request.tools = &tools;
    request.add_generation_prompt = last_is_user;
    const auto prompt = render(*compiled.program, list, request, now, jinja::Effort::probe);
    return prompt.ok() ? prompt->text : std::string();
  };
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };

  const auto part = [](const char* text) { return Json(Json::Object{{"type", Json("text")}, {"text", Json(text)}}); };
  const Json parts = Json::Array{part(kFirst), part(kSecond)};
  const auto keeps_parts = [&](const std::string& text) {
    return has(text, kFirst) && has(text, kSecond) && !has(text, "'type'") && !has(text, "\"type\"");
  };
  needs_tools = rendered({message("user", "hi")}).empty();  // a template for tools alone

  TemplateTraits traits;
  const Json arguments = Json::Object{{"probe_key", Json(kFirst)}};
  traits.keeps_parts = {
      keeps_parts(rendered({message("user", parts)})),
      keeps_parts(rendered({message("system", parts), message("user", "hi")})),
      keeps_parts(rendered({message("user", "hi"), message("assistant", parts), message("user", "hi")})),
      keeps_parts(rendered({message("user", "hi"), call_message("", arguments), result_message(parts)}, false)),
  };
  traits.wants_parts = traits.keeps_parts[0] && !has(rendered({message("user", kFirst)}), kFirst);
  traits.knows_developer = jinja::mentions(*compiled.program, "developer") &&
                           has(rendered({message("developer", kFirst), message("user", "hi")}), kFirst);

  // Of the ways to give a tool call, the first that comes out whole. A dict printed as Python has it does not count,
  // nor does JSON inside a JSON string.
  const std::string argument_text = write_json(arguments);
  const auto shows_call = [&](const Json& content, bool as_text) {
    const std::string text =
        rendered({message("user", "hi"), call_message(content, as_text ? Json(argument_text) : arguments),
                  result_message("done")},
                 false);
    if (as_text) return has(text, argument_text);
    return has(text, kFirst) && !has(text, "'probe_key'");
  };
  for (const bool null_content : {false, true})
    for (const bool as_text : {false, true})
      if (shows_call(null_content ? Json() : Json(""), as_text)) {
        traits.wants_null_content = null_content;
        traits.wants_argument_text = as_text;
        compiled.traits = traits;
        return;
      }
  compiled.traits = traits;
}

}  // namespace colibri
