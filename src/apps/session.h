// SPDX-License-Identifier: Apache-2.0
// What the commands share: bringing a model up on a device, and reading what users type.
// Invariant: stdout carries the command's result alone; everything else goes to stderr.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/options.h"
#include "backend/backend.h"
#include "base/json.h"
#include "engine/answer.h"
#include "engine/engine.h"
#include "engine/loaded_model.h"

namespace colibri {

/// A model ready to answer, one conversation at a time.
struct Session {
  std::unique_ptr<LoadedModel> loaded;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Engine> engine;
  double load_seconds = 0.0;

  /// Of host memory: weights, cache and activations.
  std::size_t bytes() const { return loaded->model.weights.bytes() + engine->bytes(); }

  static Result<Session> open(const std::string& model, const CommonOptions& options, bool need_text,
                              int max_batch = 1);
};

struct GenerateTimings {
  double ttft_s = 0.0;    // from submit to the first token
  double decode_s = 0.0;  // from the first token to the last
};

/// Runs one request to its end on this thread, and hands every piece of text to `on_piece`.
/// `cancel`: set by a signal handler, say, to end the answer early.
Result<GenerateTimings> generate(Session& session, Request request, Answer& answer,
                                 const std::function<void(const Answer::Piece&)>& on_piece,
                                 std::shared_ptr<std::atomic<bool>> cancel = nullptr);

/// The request that a prompt and the flags make; max_tokens is what the context leaves where no flag says.
Request make_request(const Session& session, std::vector<std::int32_t> prompt, const SamplingOptions& options);

/// "1,2,3" to ids; error 64 naming the flag.
Result<std::vector<std::int32_t>> parse_ids(std::string_view text);

/// A whole file, or standard input where the name is "-"; at most 64 MiB.
Result<std::string> read_text(const std::string& path);

/// Prints one JSON document on stdout.
void print_json(const Json& value);

}  // namespace colibri
