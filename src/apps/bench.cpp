// SPDX-License-Identifier: Apache-2.0
// `colibri bench`: the production path, step by step, beside what the machine's memory and arithmetic allow.
// Invariant: what is reported is measured in this run; bytes per step count the experts that really were read.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "apps/forced_routing.h"
#include "apps/session.h"
#include "apps/version.h"
#include "base/sha256.h"
#include "base/threads.h"
#include "engine/philox.h"
#include "engine/self_check.h"
#include "forward/place.h"
#include "model/locate.h"
#include "model/shapes.h"
#include "model/size.h"

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;

struct Machine {
  int threads = 0;
  double read_bandwidth = 0.0;  // bytes per second
  double fp32_flops = 0.0;      // per second, all threads
};

/// One batch size's measurements; seconds unless said.
struct BatchResult {
  int batch = 0;
  std::vector<double> decode;
  std::vector<double> ttft;
  double prefill_seconds = 0.0;
  double bytes_per_step = 0.0;    // mean over the decode steps
  double experts_touched = 0.0;   // mean of (layer, expert) pairs
  std::vector<std::int32_t> ids;  // of all sequences, one after another
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}

Json percentiles_ms(const std::vector<double>& seconds) {
  const auto ms = [&](double share) { return percentile(seconds, share) * 1e3; };
  return Json::Object{{"p50", ms(0.5)}, {"p90", ms(0.9)}, {"p99", ms(0.99)}, {"max", ms(1.0)}};
}

/// Bytes that every decode step reads whatever the routing: all weights but the routed experts and, unless it is also
/// the head, the embedding (of which only the batch's rows are read).
double dense_bytes(const Model& model) {
  double bytes = static_cast<double>(model.weights.dense.size());
  if (!model.spec.tied_embeddings) bytes -= static_cast<double>(matrix_bytes(model.spec.vocab, model.spec.d_model));
  return bytes;
}

double record_bytes(const Model& model) {
  for (const LayerWeights& layer : model.weights.layers)
    if (const auto* moe = std::get_if<MoeWeights>(&layer.ffn))
      return static_cast<double>(moe->expert_shape.record_bytes());
  return 0.0;
}

Request synthetic_request(const Model& model, int number, int prompt, int gen) {
  Request request;
  for (int position = 0; position < prompt; ++position)
    request.prompt.push_back(
        static_cast<std::int32_t>(philox(static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(position))[0] %
                                  static_cast<std::uint32_t>(model.spec.vocab)));
  request.sampling.temperature = 0.0F;
  request.max_tokens = gen;
  return request;
}

Status submit(Engine& engine, Request request) {
  TRY_STATUS(engine.check(request));
  CHECK(engine.submit(request));
  return {};
}

/// The same load once without looking: caches, pages and branch predictors are as in a server that has run a while.
Status warm_up(const Model& model, Engine& engine, const BenchOptions& options, int batch) {
  for (int i = 0; i < batch; ++i) {
    Request request = synthetic_request(model, i, options.prompt, std::min(options.gen, 4));
    request.sink = [](const TokenEvent&) {};
    TRY_STATUS(submit(engine, std::move(request)));
  }
  while (engine.step()) {
  }
  return {};
}

Result<BatchResult> measure(const Model& model, Backend& backend, const BenchOptions& options, int batch) {
  TRY(engine, Engine::create(model, backend, {.context = options.prompt + options.gen, .max_batch = batch}));
  TRY_STATUS(warm_up(model, *engine, options, batch));
  BatchResult result;
  result.batch = batch;
  std::vector<std::vector<std::int32_t>> ids(static_cast<std::size_t>(batch));
  const auto start = Clock::now();
  for (int i = 0; i < batch; ++i) {
    Request request = synthetic_request(model, i, options.prompt, options.gen);
    auto& own = ids[static_cast<std::size_t>(i)];
    request.sink = [&result, &own, start](const TokenEvent& event) {
      if (own.empty()) result.ttft.push_back(seconds_since(start));
      own.push_back(event.id);
    };
    TRY_STATUS(submit(*engine, std::move(request)));
  }
  const double dense = dense_bytes(model);
  const double record = record_bytes(model);
  const double kv_per_token = kv_values_per_token(model.spec) * sizeof(float);
  for (;;) {
    const bool decoding = static_cast<int>(result.ttft.size()) == batch;
    const double position = options.prompt + static_cast<double>(ids[0].size());
    const auto step_start = Clock::now();
    if (!engine->step()) break;
    const double seconds = seconds_since(step_start);
    if (!decoding) {
      result.prefill_seconds += seconds;
      continue;
    }
    const auto experts = static_cast<double>(engine->experts_touched());
    result.decode.push_back(seconds);
    result.experts_touched += experts;
    result.bytes_per_step += dense + record * experts + kv_per_token * position * batch;
  }
  if (!result.decode.empty()) {
    result.experts_touched /= static_cast<double>(result.decode.size());
    result.bytes_per_step /= static_cast<double>(result.decode.size());
  }
  for (const auto& own : ids) result.ids.insert(result.ids.end(), own.begin(), own.end());
  return result;
}

/// Of one query and one key; recurrent layers have none.
double attention_flops(const DeltaNetSpec&) { return 0.0; }
double attention_flops(const ShortConvSpec&) { return 0.0; }
double attention_flops(const AttentionSpec& a) { return 4.0 * a.q_cols(); }
double attention_flops(const LatentAttentionSpec& a) { return 2.0 * a.n_heads * (a.cached() + a.kv_rank); }

/// 2 x active weights x tokens, and the causal half of full attention; the head only for the last row of each prompt.
double prefill_flops(const ModelSpec& spec, int prompt, int batch) {
  const double head = static_cast<double>(spec.vocab) * spec.d_model;
  const double active = model_parameters(spec).active - head * (spec.tied_embeddings ? 1 : 2);
  double attention = 0.0;
  for (const LayerSpec& layer : spec.layers) {
    attention += std::visit([](const auto& mixer) { return attention_flops(mixer); }, layer.mixer) *
                 static_cast<double>(prompt) * prompt / 2;
  }
  return batch * (2.0 * active * prompt + attention + 2.0 * head);
}

Json result_json(const Model& model, const std::string& name, const BenchOptions& options, const Machine& machine,
                 const BatchResult& r) {
  const double p50 = percentile(r.decode, 0.5);
  const double bandwidth = p50 > 0.0 ? r.bytes_per_step / p50 : 0.0;
  const double flops = prefill_flops(model.spec, options.prompt, r.batch);
  const double prompt_tokens = static_cast<double>(options.prompt) * r.batch;
  return Json::Object{
      {"model", name},
      {"layers", static_cast<int>(model.spec.layers.size())},
      {"dtype", options.common.dtype},
      {"kv_dtype", "fp32"},
      {"router", options.router},
      {"batch", r.batch},
      {"prompt", options.prompt},
      {"gen", options.gen},
      {"steps", static_cast<std::uint64_t>(r.decode.size())},
      {"ids_sha256", sha256_hex(std::as_bytes(std::span(r.ids)))},
      {"decode_ms", percentiles_ms(r.decode)},
      {"decode_tokens_per_s", p50 > 0.0 ? r.batch / p50 : 0.0},
      {"ttft_ms", percentiles_ms(r.ttft)},
      {"prefill_tokens_per_s", prompt_tokens / r.prefill_seconds},
      {"prefill_flops", flops},
      {"peak_fraction", machine.fp32_flops > 0.0 ? flops / r.prefill_seconds / machine.fp32_flops : 0.0},
      {"experts_touched", r.experts_touched},
      {"bytes_per_step", r.bytes_per_step},
      {"bandwidth_GBps", bandwidth / 1e9},
      {"roofline_fraction", bandwidth / machine.read_bandwidth}};
}

void print_row(const BatchResult& r, const BenchOptions& options, const Machine& machine) {
  const double p50 = percentile(r.decode, 0.5);
  const double bandwidth = p50 > 0.0 ? r.bytes_per_step / p50 : 0.0;
  std::printf("%5d  %10.0f  %9.3f  %9.3f  %10.0f  %9.1f  %8.2f  %7.1f  %5.1f %%\n", r.batch,
              static_cast<double>(options.prompt) * r.batch / r.prefill_seconds, p50 * 1e3,
              percentile(r.decode, 0.99) * 1e3, p50 > 0.0 ? r.batch / p50 : 0.0, percentile(r.ttft, 0.5) * 1e3,
              r.bytes_per_step / 1e6, bandwidth / 1e9, 100.0 * bandwidth / machine.read_bandwidth);
}

Result<double> zipf_exponent(const std::string& router) {
  if (router == "uniform") return 0.0;
  char* end = nullptr;
  const double exponent = router.starts_with("zipf:") ? std::strtod(router.c_str() + 5, &end) : -1.0;
  if (!(exponent > 0.0 && exponent <= 10.0) || *end != '\0')
    return Error{Exit::usage, "--router: write uniform, or zipf:S with S in (0, 10]"};
  return exponent;
}

Result<Model> open_model(const BenchOptions& options, Backend& backend) {
  LoadOptions limits;
  limits.ram_budget = options.common.ram_budget;
  if (options.model) {
    TRY(directory, locate_model(*options.model));
    TRY(model, load_model(directory, limits));
    TRY_STATUS(place_weights(backend, model));
    return std::move(model);
  }
  TRY(spec, synthetic_shape(*options.synthetic, options.layers, options.vocab));
  return place_random_weights(backend, spec, 1, limits);
}

}  // namespace

Status bench_command(const BenchOptions& options) {
  TRY(exponent, zipf_exponent(options.router));
  if (options.model && (options.layers != 0 || options.vocab != 0))
    return Error{Exit::usage, "--layers and --vocab: cut synthetic shapes alone"};
  TRY(backend, make_backend(options.common.device, options.common.threads));
  if (exponent > 0.0 && !backend->on_host())
    return Error{Exit::usage, "--router: zipf chooses experts on the host; use --device cpu"};
  if (!backend->on_host()) TRY_STATUS(self_check(*backend));
  TRY(model, open_model(options, *backend));
  if (options.prompt + options.gen > model.spec.context)
    return data_error("--prompt and --gen: " + std::to_string(options.prompt + options.gen) +
                      " tokens exceed the model's context of " + std::to_string(model.spec.context));
  const std::unique_ptr<Backend> zipf = exponent > 0.0 ? make_zipf_backend(*backend, exponent) : nullptr;
  Backend& measured = zipf ? *zipf : *backend;

  // The probe reads as much as the model holds, so that both find it in the same level of the memory; 1 GiB at most.
  Machine machine;
  machine.threads = backend->threads();
  const std::size_t held = model.weights.bytes();
  TRY(bandwidth, backend->measure_read_bandwidth(std::clamp(held, std::size_t{1} << 22, std::size_t{1} << 30)));
  machine.read_bandwidth = bandwidth;
  backend->adopt_thread();  // the bandwidth probe starts threads, which would inherit the core
  machine.fp32_flops = backend->measure_flops();

  const Device device = backend->device();
  const std::string name = options.model ? *options.model : *options.synthetic;
  std::string command = "colibri bench " + (options.model ? *options.model : "--synthetic " + *options.synthetic);
  if (!options.json) {
    const std::string on =
        device.gpu.empty() ? std::to_string(machine.threads) + " threads of " + device.cpu : device.gpu;
    std::printf("%s: %s read %.1f GB/s (%.0f MB), fp32 %.0f GFLOP/s\n", name.c_str(), on.c_str(),
                machine.read_bandwidth / 1e9, static_cast<double>(held) / 1e6, machine.fp32_flops / 1e9);
    std::printf("batch   prefill/s   step p50   step p99    decode/s  ttft p50   MB/step     GB/s    of limit\n");
    std::printf("         tokens/s         ms         ms    tokens/s        ms\n");
  }
  Json::Array results;
  for (const int batch : options.batch) {
    TRY(result, measure(model, measured, options, batch));
    results.push_back(result_json(model, name, options, machine, result));
    if (!options.json) print_row(result, options, machine);
  }
  if (options.json) {
    print_json(
        Json::Object{{"version", version()},
                     {"commit", commit()},
                     {"command", command},
                     {"machine", Json::Object{{"gpu", device.gpu.empty() ? Json() : Json(device.gpu)},
                                              {"driver", device.driver.empty() ? Json() : Json(device.driver)},
                                              {"cpu", device.cpu},
                                              {"cores", machine.threads},
                                              {"read_GBps", machine.read_bandwidth / 1e9},
                                              {"peaks", Json::Object{{"fp32_GFLOPs", machine.fp32_flops / 1e9}}}}},
                     {"results", std::move(results)}});
  }
  return {};
}

}  // namespace colibri
