// SPDX-License-Identifier: Apache-2.0
// Values as text: str(), repr() and JSON, byte for byte as CPython writes them.
#pragma once

#include "text/jinja/value.h"

namespace colibri::jinja {

std::string real_repr(double value);

/// str(value) onto `out`; undefined prints nothing.
void print(Builder& out, const Value& value);
void print_repr(Builder& out, const Value& value);
/// The value itself where it is a string, else its str().
const Str& as_text(Heap& heap, const Value& value);

struct JsonStyle {
  bool ascii = false;  // \uXXXX for everything else
  bool sort_keys = false;
  bool broken = false;  // one item a line, each level deeper by `indent`
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
void print_json(Heap& heap, Builder& out, const Value& value, const JsonStyle& style);
/// Anywhere in the value, text that came from the request.
bool any_tainted(Heap& heap, const Value& value);

}  // namespace colibri::jinja
