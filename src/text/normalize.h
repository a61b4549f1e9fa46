// SPDX-License-Identifier: Apache-2.0
// The "normalizer" of tokenizer.json: Unicode forms, replacements and the like, applied before the text is split.
// Invariant: valid UTF-8 in, valid UTF-8 out, grown at most 32-fold per step.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/regex.h"

namespace colibri {

class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  static Result<Normalizer> parse(const Json& config);

  bool empty() const { return steps_.empty(); }
  /// Thread-safe, as all const members of this module.
  Result<std::string> apply(std::string_view text) const;

 private:
  struct Form {
    bool compose = false;
    bool compatible = false;
  };
  struct Prepend {
    std::string text;
  };
  struct Replace {
    Regex pattern;
    std::string text;
  };
  struct Strip {
    bool left = false;
    bool right = false;
  };
  struct Lowercase {};
  using Step = std::variant<Form, Prepend, Replace, Strip, Lowercase>;

  Status add(const Json& config);
  std::vector<Step> steps_;
};

/// The regular expression of a "pattern": {"Regex": ...} or {"String": ...}.
Result<Regex> parse_pattern(const Json& config);

/// Replaces every match.
Result<std::string> replace_all(const Regex& pattern, std::string_view text, std::string_view by);

}  // namespace colibri
