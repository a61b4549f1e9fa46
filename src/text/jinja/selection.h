// SPDX-License-Identifier: Apache-2.0
// A path such as "function.name" or "parts.0", as filters take it for their `attribute` arguments.
#pragma once

#include <vector>

#include "text/jinja/value.h"

namespace colibri::jinja {

class Attribute {
 public:
  /// `path` is a string, an integer, or none for the item itself; `otherwise` (unless none) replaces what is undefined.
  explicit Attribute(const Value& path, const Value& otherwise = Value::none());
  Value of(Interpreter& in, const Value& item) const;

 private:
  struct Part {
    std::string_view name;
    std::int64_t index = 0;
    bool is_index = false;
  };
  std::vector<Part> parts_;
  Value otherwise_;
};

}  // namespace colibri::jinja
