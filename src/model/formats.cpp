// SPDX-License-Identifier: Apache-2.0
// One line per format; docs/FORMATS.md describes them.
#include "model/formats.h"

#include <algorithm>

#include "model/config_reader.h"
#include "model/formats/formats.h"

namespace colibri {
namespace {

constexpr std::array kFormats{
    Format{"awq", parse_awq, find_awq},
    Format{"compressed-tensors", parse_compressed_tensors, find_compressed_tensors},
    Format{"fp8", parse_fp8, find_fp8},
    Format{"gptq", parse_gptq, find_gptq},
    Format{"modelopt", parse_modelopt, find_modelopt},
    Format{"mxfp4", parse_mxfp4, find_mxfp4},
};

constexpr std::size_t kShownBytes = 40;  // of a wrong name

std::string supported_formats() {
  std::string list;
  for (const Format& format : kFormats) list.append(list.empty() ? "" : ", ").append(format.method);
  return list;
}

}  // namespace

std::int64_t Weight::rows() const {
  std::int64_t product = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) product *= shape[i];
  return product;
}

std::string Weight::base() const {
  constexpr std::string_view kEnd = ".weight";
  return name.ends_with(kEnd) ? name.substr(0, name.size() - kEnd.size()) : name;
}

Result<WeightFormat> WeightFormat::parse(const Json& config, const std::string& place) {
  WeightFormat result;
  if (config.is_null()) return result;
  ConfigReader reader(config, place);
  const std::string method = reader.text_or("quant_method", "");
  TRY_STATUS(reader.status());
  const auto format =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& known) { return known.method == method; });
  if (format == kFormats.end()) {
    return data_error(place + ": quant_method: " +
                      (method.empty() ? "missing" : "\"" + method.substr(0, kShownBytes) + "\" cannot be decoded") +
                      "; use the bf16 checkpoint, or one whose method is " + supported_formats());
  }
  result.format_ = &*format;
  result.settings_ = format->parse(reader);
  TRY_STATUS(reader.status());
  return result;
}

Result<std::optional<Encoding>> WeightFormat::find(const Weight& weight, const Checkpoint& checkpoint) const {
  if (format_ == nullptr) return std::optional<Encoding>();
  return format_->find(settings_, weight, checkpoint);
}

bool WeightFormat::ignores(std::string_view tensor) const {
  // A scale of what is not quantised here says only how a producer's own kernels round.
  constexpr std::array<std::string_view, 9> kEnds{
      ".input_scale", ".input_global_scale", ".output_scale",     ".q_scale",   ".k_scale",
      ".v_scale",     ".weight_shape",       ".activation_scale", ".prob_scale"};
  return format_ != nullptr &&
         std::any_of(kEnds.begin(), kEnds.end(), [&](std::string_view end) { return tensor.ends_with(end); });
}

bool WeightFormat::may_be_idle_bias(const std::string& tensor, const Checkpoint& checkpoint) const {
  constexpr std::string_view kEnd = ".bias";  // of AutoGPTQ
  return format_ != nullptr && tensor.ends_with(kEnd) &&
         checkpoint.find(tensor.substr(0, tensor.size() - kEnd.size()) + ".qweight") != nullptr;
}

bool stores_weight(const Checkpoint& checkpoint, const std::string& name) {
  const std::string base = Weight{name, {}}.base();
  const std::array names{name, name + "_packed", name + "_blocks", base + ".qweight"};
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& stored) { return checkpoint.find(stored) != nullptr; });
}

}  // namespace colibri
