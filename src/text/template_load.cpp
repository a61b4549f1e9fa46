// SPDX-License-Identifier: Apache-2.0
// Where published models keep their chat templates, and the special tokens that those may print.
#include <algorithm>

#include "base/file.h"
#include "text/template.h"

namespace colibri {
namespace {

constexpr std::uint64_t kMaxTemplateBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{64} << 20;

struct Sources {
  std::optional<std::string> main;
  std::optional<std::string> with_tools;
  std::string file;  // that `main` came from
};

/// The file's JSON object, or null where there is no such file.
Result<Json> read_object(const std::filesystem::path& path) {
  if (!path_exists(path.string())) return Json();
  TRY(text, read_file(path.string(), kMaxConfigBytes));
  TRY(json, parse_json(text).at(path.string()));
  if (!json.is_object()) return data_error(path.string() + ": must be a JSON object");
  return std::move(json);
}

/// The value of "chat_template": one source, or a list of {name, template}.
Status take_sources(const Json& value, const std::string& file, Sources& sources) {
  if (value.is_null()) return {};
  sources.file = file;
  if (value.is_string()) {
    sources.main = value.as_string();
    return {};
  }
  if (!value.is_array()) return data_error(file + ": chat_template must be a string or a list");
  for (const Json& entry : value.as_array()) {
    const Json *name = entry.find("name"), *source = entry.find("template");
    if (name == nullptr || source == nullptr || !name->is_string() || !source->is_string())
      return data_error(file + ": chat_template: each entry needs a name and a template");
    if (name->as_string() == "default" || value.as_array().size() == 1) sources.main = source->as_string();
    if (name->as_string() == "tool_use") sources.with_tools = source->as_string();
  }
  if (!sources.main) return data_error(file + ": chat_template: no entry is named default");
  return {};
}

Result<Sources> find_sources(const std::filesystem::path& directory, const Json& config) {
  Sources sources;
  const auto file = directory / "chat_template.jinja";
  if (path_exists(file.string())) {
    TRY(text, read_file(file.string(), kMaxTemplateBytes));
    sources.main = std::move(text);
    sources.file = file.string();
    const auto tool_file = directory / "additional_chat_templates" / "tool_use.jinja";
    if (path_exists(tool_file.string())) {
      TRY(tool_text, read_file(tool_file.string(), kMaxTemplateBytes));
      sources.with_tools = std::move(tool_text);
    }
    return sources;
  }
  if (const Json* value = config.find("chat_template"))
    TRY_STATUS(take_sources(*value, (directory / "tokenizer_config.json").string(), sources));
  if (sources.main) return sources;
  const auto legacy = directory / "chat_template.json";
  TRY(json, read_object(legacy));
  if (const Json* value = json.find("chat_template")) TRY_STATUS(take_sources(*value, legacy.string(), sources));
  return sources;
}

/// bos_token and its like: a string, or an object with its content. The first file that names one wins.
void take_tokens(const Json& object, SpecialTokens& tokens) {
  if (!object.is_object()) return;
  for (const Json::Member& member : object.as_object()) {
    const std::string& name = member.first;
    const Json& value = member.second;
    static constexpr std::string_view kNames[] = {"bos_token", "eos_token", "pad_token", "unk_token",
                                                  "sep_token", "cls_token", "mask_token"};
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) continue;
    const Json* content = value.is_object() ? value.find("content") : &value;
    if (content == nullptr || !content->is_string()) continue;
    const auto known =
        std::find_if(tokens.begin(), tokens.end(), [&](const auto& token) { return token.first == name; });
    if (known == tokens.end()) tokens.emplace_back(name, content->as_string());
  }
}

}  // namespace

Result<ChatTemplate> ChatTemplate::load(const std::filesystem::path& directory) {
  TRY(config, read_object(directory / "tokenizer_config.json"));
  TRY(sources, find_sources(directory, config));
  if (!sources.main)
    return data_error(directory.string() +
                      ": no chat template (chat_template.jinja, or chat_template in tokenizer_config.json): use --raw "
                      "to give the prompt as it is");
  SpecialTokens tokens;
  take_tokens(config, tokens);
  TRY(map, read_object(directory / "special_tokens_map.json"));
  take_tokens(map, tokens);
  return compile(*sources.main, std::move(tokens), sources.with_tools).at(sources.file);
}

}  // namespace colibri
