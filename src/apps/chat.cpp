// SPDX-License-Identifier: Apache-2.0
// `colibri chat`: a conversation in the terminal. Ctrl-C ends an answer; a second one, or one at the prompt, the
// program.
#include <csignal>
#include <cstdio>
#include <iostream>

#include <unistd.h>

#include "apps/session.h"

namespace colibri {
namespace {

// Lock-free, so a signal handler may touch it.
std::shared_ptr<std::atomic<bool>>& interrupt_flag() {
  static auto flag = std::make_shared<std::atomic<bool>>(false);
  return flag;
}
static_assert(std::atomic<bool>::is_always_lock_free);
std::atomic<bool>* interrupted = nullptr;

void on_interrupt(int) {
  if (interrupted->exchange(true)) _exit(130);
}

Json message(const char* role, std::string content) {
  return Json::Object{{"role", role}, {"content", std::move(content)}};
}

}  // namespace

Status chat_command(const ChatOptions& options) {
  TRY(session, Session::open(options.model, options.common, true));
  interrupted = interrupt_flag().get();
  std::signal(SIGINT, on_interrupt);
  const bool terminal = isatty(STDIN_FILENO) != 0;
  const auto fresh = [&] {
    Json::Array start;
    if (options.system) start.push_back(message("system", *options.system));
    return Json(std::move(start));
  };
  Json messages = fresh();
  if (terminal) std::fprintf(stderr, "Talking to %s. /new starts again, /quit leaves.\n", options.model.c_str());
  for (;;) {
    interrupted->store(terminal);  // at the prompt one Ctrl-C is enough
    if (terminal) std::fprintf(stderr, "> ");
    std::string line;
    if (!std::getline(std::cin, line) || line == "/quit") break;
    if (line.empty()) continue;
    if (line == "/new") {
      messages = fresh();
      continue;
    }
    interrupted->store(false);
    messages.as_array().push_back(message("user", std::move(line)));
    TRY(prompt, session.loaded->chat_prompt({.messages = &messages}));
    Answer answer(&*session.loaded->tokenizer, options.sampling.stop);
    auto result = generate(
        session, make_request(session, std::move(prompt.ids), options.sampling), answer,
        [](const Answer::Piece& piece) {
          std::fwrite(piece.text.data(), 1, piece.text.size(), stdout);
          if (std::fflush(stdout) != 0) interrupted->store(true);  // nobody reads any more
        },
        interrupt_flag());
    if (!result.ok()) {
      if (!terminal) return std::move(result).error();
      std::fprintf(stderr, "%s\nThe conversation starts again.\n", result.error().message.c_str());
      messages = fresh();
      continue;
    }
    std::fputc('\n', stdout);
    if (std::fflush(stdout) != 0) break;
    messages.as_array().push_back(message("assistant", answer.text()));
  }
  return {};
}

}  // namespace colibri
