// SPDX-License-Identifier: Apache-2.0
// config.json and generation_config.json: what the model is and how its makers sample from it.
// Invariant: what comes out is consistent and bounded (core/spec.h); every refusal is error 65 and names file and key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "core/spec.h"

namespace colibri {

/// Defaults for sampling. Where the file is silent: greedy is off, no filter, no penalty.
struct GenerationConfig {
  std::vector<int> eos;  // each < vocab
  std::optional<int> bos;
  std::optional<int> pad;
  bool do_sample = false;
  float temperature = 1.0F;
  int top_k = 0;       // 0: all
  float top_p = 1.0F;  // 1: all
  float min_p = 0.0F;  // 0: all
  float repetition_penalty = 1.0F;
  std::optional<int> max_new_tokens;
};

struct ModelConfig {
  ModelSpec spec;
  GenerationConfig generation;
  std::string weight_format;          // "fp8 e4m3", as quantization_config has it; empty: plain numbers
  Json quantization;                  // what it was made of, for model/formats.h; null: plain numbers
  std::vector<std::string> warnings;  // one line each
};

/// `place` is the file's name in messages.
Result<ModelConfig> parse_config(const Json& config, const std::string& place);

/// Replaces what the file speaks of.
Status parse_generation_config(const Json& file, const std::string& place, int vocab, GenerationConfig& generation);

/// Reads one config.json alone.
Result<ModelConfig> read_config_file(const std::string& path);

/// Reads config.json and, where there is one, generation_config.json.
Result<ModelConfig> read_config(const std::string& directory);

}  // namespace colibri
