// SPDX-License-Identifier: Apache-2.0
// A model's chat template: found in its directory, compiled once, rendered for each request.
// Invariant: constant after load and shared by all threads. Whatever came from the request is reported in `plain`, so
// that no text of a client can become a special token.
#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/byte_range.h"
#include "text/messages.h"

namespace colibri {

namespace jinja {
struct Program;
enum class Effort;
}  // namespace jinja

struct RenderedPrompt {
  std::string text;
  std::vector<ByteRange> plain;  // bytes of `text` that came from messages, tools or variables: never special tokens
};

/// What a client asks to have rendered. The pointers outlive the call.
struct ChatRequest {
  const Json* messages = nullptr;   // an array
  const Json* tools = nullptr;      // an array; null: none
  const Json* variables = nullptr;  // an object with further template variables; it cannot replace the others
  bool add_generation_prompt = true;
};

/// Names and texts, such as bos_token: "<s>".
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

/// The local time at which a prompt is rendered.
std::tm local_now();

class ChatTemplate {
 public:
  /// From chat_template.jinja with additional_chat_templates/, else tokenizer_config.json, else chat_template.json.
  /// Error 65: there is none, or it does not compile (file and line are named).
  static Result<ChatTemplate> load(const std::filesystem::path& directory);
  /// `tool_source` replaces `source` for requests with tools.
  static Result<ChatTemplate> compile(std::string_view source, SpecialTokens tokens,
                                      std::optional<std::string_view> tool_source = {});

  /// The prompt of a conversation, its messages normalised. A bound reached: the message says template_limit.
  Result<RenderedPrompt> render_chat(const ChatRequest& request, const std::tm& now = local_now()) const;

  /// The template over `variables` (an object) as they are, beside the special tokens and the defaults tools =
  /// documents = none.
  Result<std::string> render_raw(const Json& variables, const std::tm& now = local_now()) const;

  const TemplateTraits& traits() const { return main_.traits; }

 private:
  struct Compiled {
    std::shared_ptr<const jinja::Program> program;
    TemplateTraits traits;
  };

  const Compiled& choose(const Json* tools) const;
  Result<RenderedPrompt> render(const jinja::Program& program, const Json& messages, const ChatRequest& request,
                                const std::tm& now, jinja::Effort effort) const;
  void probe(Compiled& compiled) const;

  Compiled main_;
  std::optional<Compiled> with_tools_;
  SpecialTokens tokens_;
};

}  // namespace colibri
