// SPDX-License-Identifier: Apache-2.0
// The cache's layout is models--ORG--NAME/refs/main, which names a commit, and snapshots/<commit>/.
#include "model/locate.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace colibri {
namespace {

constexpr std::uint64_t kMaxRefBytes = 256;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string cache_directory() {
  if (std::string path = environment("HF_HUB_CACHE"); !path.empty()) return path;
  if (std::string path = environment("HF_HOME"); !path.empty()) return path + "/hub";
  if (std::string path = environment("XDG_CACHE_HOME"); !path.empty()) return path + "/huggingface/hub";
  return environment("HOME") + "/.cache/huggingface/hub";
}

bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  return !text.empty() && text.find("..") == std::string_view::npos && std::all_of(text.begin(), text.end(), allowed);
}

bool is_repository(std::string_view model) {
  const std::size_t slash = model.find('/');
  return slash != std::string_view::npos && is_name(model.substr(0, slash)) && is_name(model.substr(slash + 1)) &&
         model.front() != '.';
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

Result<std::string> locate_in_cache(const std::string& model) {
  const std::string cache = cache_directory();
  const std::size_t slash = model.find('/');
  const std::string repository = cache + "/models--" + model.substr(0, slash) + "--" + model.substr(slash + 1);
  const Error missing{Exit::not_found, model + ": neither a directory nor in the Hugging Face cache (" + cache +
                                           "); fetch it with: hf download " + model};
  auto ref = read_file(repository + "/refs/main", kMaxRefBytes);
  if (!ref.ok()) return missing;
  std::string commit = *std::move(ref);
  while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back())) != 0) commit.pop_back();
  if (!is_name(commit)) return data_error(repository + "/refs/main: not the name of a snapshot");
  std::string snapshot = repository + "/snapshots/" + commit;
  if (!path_exists(snapshot + "/config.json")) return missing;
  return snapshot;
}

bool ends_with_gguf(std::string_view model) {
  std::string end(model.substr(model.size() - std::min<std::size_t>(model.size(), 5)));
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end == ".gguf";
}

}  // namespace

Result<std::string> locate_model(const std::string& model) {
  if (ends_with_gguf(model) && !is_directory(model)) {
    return data_error(model +
                      ": GGUF files are not read; give the directory (or ORG/NAME) of the original safetensors "
                      "checkpoint");
  }
  if (is_directory(model)) {
    if (!path_exists(model + "/config.json")) return Error{Exit::not_found, model + ": no config.json in it"};
    return model;
  }
  if (path_exists(model)) return data_error(model + ": not a directory; give the one that holds config.json");
  if (is_repository(model)) return locate_in_cache(model);
  return Error{Exit::not_found, (model.empty() ? "MODEL" : model) + ": no such directory"};
}

Result<std::string> locate_config(const std::string& model) {
  if (model.ends_with(".json") && path_exists(model) && !is_directory(model)) return model;
  TRY(directory, locate_model(model));
  return directory + "/config.json";
}

}  // namespace colibri
