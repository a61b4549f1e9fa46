// SPDX-License-Identifier: Apache-2.0
// What the command line says, as plain values; each command is a function of these. Only cli.cpp knows the parser.
// Invariant: an optional is empty where the flag was not given, so that the model's own defaults can apply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace colibri {

/// Flags that every command with a model takes.
struct CommonOptions {
  std::string device = "auto";
  int threads = 0;             // 0: all cores of this process
  std::string dtype = "bf16";  // of weights
  std::string math = "native";
  int context = 0;             // 0: the model's
  std::size_t ram_budget = 0;  // bytes; 0: what is available
  std::size_t vram_budget = 0;
};

struct SamplingOptions {
  std::optional<float> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int> top_k;
  std::optional<std::uint64_t> seed;
  std::optional<int> max_tokens;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

struct RunOptions {
  CommonOptions common;
  SamplingOptions sampling;
  std::string model;
  std::optional<std::string> prompt, ids, messages, system;
  bool raw = false;
  bool json = false;
};

struct ChatOptions {
  CommonOptions common;
  SamplingOptions sampling;
  std::string model;
  std::optional<std::string> system;
};

struct ServeOptions {
  CommonOptions common;
  std::vector<std::string> models;  // [NAME=]MODEL
  std::string host = "127.0.0.1";
  int port = 8000;
  std::optional<std::string> served_model_name;
  int max_batch = 8;
};

struct LogitsOptions {
  CommonOptions common;
  std::string model, ids, out;
};

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> text, file;
  bool special = false;
  bool json = false;
};

struct DetokenizeOptions {
  std::string model, ids;
};

struct TemplateOptions {
  std::string model, messages;
  std::optional<std::string> now;
};

struct PerplexityOptions {
  CommonOptions common;
  std::string model, file;
  int window = 1024;
  bool json = false;
};

struct InspectOptions {
  std::string model;
  bool json = false;
};

struct BenchOptions {
  CommonOptions common;
  std::optional<std::string> model, synthetic;
  int layers = 0;  // 0: all
  int vocab = 0;   // 0: the shape's
  std::vector<int> batch{1};
  int prompt = 512;
  int gen = 64;
  std::string router = "uniform";
  bool verify = false;
  bool json = false;
};

Status run_command(const RunOptions& options);
Status chat_command(const ChatOptions& options);
Status serve_command(const ServeOptions& options);
Status logits_command(const LogitsOptions& options);
Status tokenize_command(const TokenizeOptions& options);
Status detokenize_command(const DetokenizeOptions& options);
Status template_command(const TemplateOptions& options);
Status perplexity_command(const PerplexityOptions& options);
Status inspect_command(const InspectOptions& options);
Status bench_command(const BenchOptions& options);

}  // namespace colibri
