// SPDX-License-Identifier: Apache-2.0
// `colibri logits` and `perplexity`: what the model thinks of a given text.
#include <cmath>
#include <cstdio>

#include "apps/session.h"
#include "base/file.h"
#include "engine/score.h"
#include "model/safetensors_writer.h"

namespace colibri {
namespace {

/// -log p(target) in double over fp32 logits.
double negative_log_likelihood(std::span<const float> logits, std::int32_t target) {
  double max = -INFINITY;
  for (const float logit : logits) max = std::max(max, static_cast<double>(logit));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  return max + std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(target)]);
}

}  // namespace

Status logits_command(const LogitsOptions& options) {
  TRY(ids, parse_ids(options.ids));
  TRY(session, Session::open(options.model, options.common, false));
  const int vocab = session.loaded->model.spec.vocab;
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(vocab) * sizeof(float);
  TRY(writer,
      SafetensorsWriter::create(
          options.out, {{"logits", "F32", {static_cast<std::int64_t>(ids.size()), vocab}, ids.size() * row_bytes}}));
  Status written;
  TRY_STATUS(score(*session.backend, session.loaded->model, ids, [&](int, std::span<const float> logits) {
               written = writer.append(std::as_bytes(logits));
               return written.ok();
             }).at("--ids"));
  TRY_STATUS(std::move(written));
  return writer.finish();
}

Status perplexity_command(const PerplexityOptions& options) {
  TRY(session, Session::open(options.model, options.common, true));
  TRY(text, read_text(options.file));
  TRY(ids, session.loaded->tokenizer->encode(text, Specials::plain).at(options.file));
  if (ids.size() < 2) return data_error(options.file + ": fewer than two tokens");
  // Windows start at 0, W, 2W, ... and predict the tokens behind each of their positions, the next window's first
  // included.
  double nll = 0.0;
  std::size_t counted = 0;
  const auto window = static_cast<std::size_t>(std::min(options.window, session.loaded->model.spec.context));
  for (std::size_t start = 0; start + 1 < ids.size(); start += window) {
    const std::span<const std::int32_t> inputs =
        std::span(ids).subspan(start, std::min(window, ids.size() - 1 - start));
    TRY_STATUS(score(*session.backend, session.loaded->model, inputs, [&](int position, std::span<const float> logits) {
      nll += negative_log_likelihood(logits, ids[start + static_cast<std::size_t>(position) + 1]);
      ++counted;
      return true;
    }));
  }
  const double mean = nll / static_cast<double>(counted);
  if (options.json) {
    print_json(
        Json::Object{{"tokens", static_cast<std::uint64_t>(counted)}, {"nll", mean}, {"perplexity", std::exp(mean)}});
  } else {
    std::printf("perplexity %.4f over %zu tokens (%.4f nats each)\n", std::exp(mean), counted, mean);
  }
  return {};
}

}  // namespace colibri
