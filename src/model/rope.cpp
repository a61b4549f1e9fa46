// SPDX-License-Identifier: Apache-2.0
// Formulas: linear (position interpolation), llama3 (Llama 3.1), yarn (arXiv 2309.00071). Everything is rounded to fp32
// where the oracle rounds, since positions multiply whatever differs.
#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace colibri {
namespace {

constexpr double kMaxFactor = 1e6;
constexpr double kMaxTheta = 1e15;
constexpr int kMaxOriginal = 1 << 28;

/// 0 below `low`, 1 above `high`, linear between.
float ramp(int i, double low, double high) {
  if (low == high) high += 0.001;  // a step, without dividing by zero
  return std::clamp(static_cast<float>((i - low) / (high - low)), 0.0F, 1.0F);
}

/// Attention factor of a stretch by `factor`.
double magnitude(double factor, double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; }

/// What dynamic scaling multiplies theta by. It stretches with the length of the text, but only beyond
/// max_position_embeddings, where no text goes here; Hunyuan's alpha makes it constant.
double dynamic_stretch(ConfigReader& scaling, int dim) {
  if (!scaling.has("alpha")) {
    scaling.real("factor", 1e-3, kMaxFactor);
    return 1.0;
  }
  const double alpha = scaling.real("alpha", 1, kMaxFactor);
  if (dim <= 2) scaling.refuse("alpha", "needs a rotation of more than two values");
  return dim <= 2 ? 1.0 : std::pow(alpha, static_cast<double>(dim) / (dim - 2));
}

void scale_llama3(ConfigReader& scaling, int context, std::vector<float>& frequencies) {
  const auto factor = static_cast<float>(scaling.real("factor", 1e-3, kMaxFactor));
  const double low = scaling.real("low_freq_factor", 1e-3, kMaxFactor);
  const double high = scaling.real("high_freq_factor", 1e-3, kMaxFactor);
  const double original = scaling.integer_or("original_max_position_embeddings", context, 1, kMaxOriginal);
  if (high <= low) scaling.refuse("high_freq_factor", "must be larger than low_freq_factor");
  if (scaling.failed()) return;
  for (float& frequency : frequencies) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wavelength > static_cast<float>(original / low)) {
      frequency /= factor;
    } else if (wavelength >= static_cast<float>(original / high)) {
      const float turns = static_cast<float>(original) / wavelength;
      const float smooth = (turns - static_cast<float>(low)) / static_cast<float>(high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

/// Divides the frequencies by the factors under `key`.
void divide(ConfigReader& scaling, const char* key, std::vector<float>& inv_freq) {
  const std::vector<double> factors = scaling.reals(key, 1e-3, kMaxFactor);
  if (factors.size() != inv_freq.size())
    return scaling.refuse(key, "needs " + std::to_string(inv_freq.size()) + " numbers");
  for (std::size_t i = 0; i < factors.size(); ++i) inv_freq[i] /= static_cast<float>(factors[i]);
}

void scale_longrope(ConfigReader& scaling, ConfigReader& config, int& context, RopeSpec& rope) {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const int original = (scaling.has(kOriginal) ? scaling : config).integer(kOriginal, 2, kMaxOriginal);
  const double factor = scaling.real_or("factor", static_cast<double>(context) / original, 1e-3, kMaxFactor);
  const double inferred = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
  const auto scale = [&](const char* own) {
    return static_cast<float>(scaling.real_or(scaling.has(own) ? own : "attention_factor", inferred, 1e-3, kMaxFactor));
  };
  rope.scale = scale("short_mscale");
  rope.beyond = {context, rope.inv_freq, scale("long_mscale")};
  divide(scaling, "short_factor", rope.inv_freq);
  if (context <= original) {
    rope.beyond = {};
    return;
  }
  divide(scaling, "long_factor", rope.beyond.inv_freq);
  context = original;
  scaling.warn(kOriginal, "the context is " + std::to_string(original) + " tokens unless --context asks for up to " +
                              std::to_string(rope.beyond.context) +
                              ", which turns all texts as longrope turns long ones");
}

void scale_yarn(ConfigReader& scaling, int context, double theta, RopeSpec& rope) {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const int original = scaling.integer_or(kOriginal, context, 1, kMaxOriginal);
  const double factor = scaling.has(kOriginal)
                            ? scaling.real_or("factor", static_cast<double>(context) / original, 1e-3, kMaxFactor)
                            : scaling.real("factor", 1e-3, kMaxFactor);
  const double mscale = scaling.real_or("mscale", 0, 0, kMaxFactor);
  const double mscale_all_dim = scaling.real_or("mscale_all_dim", 0, 0, kMaxFactor);
  const bool both = mscale > 0 && mscale_all_dim > 0;
  const double inferred = both ? magnitude(factor, mscale) / magnitude(factor, mscale_all_dim) : magnitude(factor, 1);
  rope.scale = static_cast<float>(scaling.real_or("attention_factor", inferred, 1e-3, kMaxFactor));
  const double beta_fast = scaling.real_or("beta_fast", 32, 1e-3, kMaxFactor);
  const double beta_slow = scaling.real_or("beta_slow", 1, 1e-3, kMaxFactor);
  const bool truncate = scaling.flag_or("truncate", true);
  if (scaling.failed()) return;
  // The index of the pair that turns `rotations` times within the original context.
  const auto pair_of = [&](double rotations) {
    return rope.dim * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = pair_of(beta_fast);
  double high = pair_of(beta_slow);
  if (truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.dim - 1));
  for (int i = 0; i < rope.dim / 2; ++i) {
    float& frequency = rope.inv_freq[static_cast<std::size_t>(i)];
    const float interpolated = ramp(i, low, high);
    frequency = frequency / static_cast<float>(factor) * interpolated + frequency * (1 - interpolated);
  }
}

}  // namespace

RopeSpec parse_rope(ConfigReader& config, int head_dim, int& context, double default_theta) {
  ConfigReader scaling = config.object(config.has("rope_scaling") ? "rope_scaling" : "rope_parameters");
  for (const char* kind : {"full_attention", "sliding_attention"})
    if (scaling.has(kind)) scaling.refuse(kind, "rotations that differ by kind of layer are not supported");
  ConfigReader& theta_at = scaling.has("rope_theta") ? scaling : config;
  ConfigReader& part_at = scaling.has("partial_rotary_factor") ? scaling : config;
  // Above 1: yarn divides by its logarithm.
  double theta = theta_at.real_assumed("rope_theta", default_theta, 1.001, kMaxTheta);
  // Or as a number of values, in older files.
  const int turned = config.integer_or("rotary_dim", head_dim, 2, std::max(head_dim, 2));
  const double part = part_at.real_or("partial_rotary_factor", static_cast<double>(turned) / head_dim, 0.0, 1.0);
  const std::string kind = scaling.text_or("rope_type", scaling.text_or("type", "default"));

  RopeSpec rope;
  rope.dim = static_cast<int>(head_dim * part);
  if (rope.dim < 2 || rope.dim % 2 != 0) {
    config.refuse("head_dim",
                  "the rotary part of " + std::to_string(rope.dim) + " values is not a positive even number");
    return rope;
  }
  if (kind == "dynamic") theta *= dynamic_stretch(scaling, rope.dim);
  for (int i = 0; i < rope.dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(rope.dim);
    rope.inv_freq.push_back(1.0F / static_cast<float>(std::pow(theta, exponent)));
  }

  if (kind == "linear") {
    const auto factor = static_cast<float>(scaling.real("factor", 1e-3, kMaxFactor));
    for (float& frequency : rope.inv_freq) frequency /= factor;
  } else if (kind == "llama3") {
    scale_llama3(scaling, context, rope.inv_freq);
  } else if (kind == "longrope" || kind == "su") {
    scale_longrope(scaling, config, context, rope);
  } else if (kind == "yarn") {
    scale_yarn(scaling, context, theta, rope);
  } else if (kind != "default" && kind != "dynamic") {
    scaling.refuse("rope_type", "\"" + kind.substr(0, 40) +
                                    "\" is not supported (default, dynamic, linear, llama3, longrope, yarn)");
  }
  return rope;
}

void lengthen(ModelSpec& spec, int context) {
  if (context <= spec.context) return;
  std::vector<RopeSpec*> ropes;
  for (LayerSpec& layer : spec.layers) {
    if (auto* attention = std::get_if<AttentionSpec>(&layer.mixer)) ropes.push_back(&attention->rope);
    if (auto* latent = std::get_if<LatentAttentionSpec>(&layer.mixer)) ropes.push_back(&latent->rope);
  }
  const auto long_enough = [&](const RopeSpec* rope) { return rope->beyond.context >= context; };
  if (ropes.empty() || !std::all_of(ropes.begin(), ropes.end(), long_enough)) return;
  for (RopeSpec* rope : ropes) {
    rope->inv_freq = rope->beyond.inv_freq;
    rope->scale = rope->beyond.scale;
  }
  spec.context = ropes.front()->beyond.context;
}

double parse_score_factor(ConfigReader& config) {
  ConfigReader scaling = config.object(config.has("rope_scaling") ? "rope_scaling" : "rope_parameters");
  if (scaling.text_or("rope_type", scaling.text_or("type", "default")) == "default") return 1.0;
  const double all_dim = scaling.real_or("mscale_all_dim", 0, 0, kMaxFactor);
  if (all_dim == 0) return 1.0;
  const double factor = magnitude(scaling.real("factor", 1e-3, kMaxFactor), all_dim);
  return factor * factor;
}

}  // namespace colibri
