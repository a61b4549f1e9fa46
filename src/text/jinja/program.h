// SPDX-License-Identifier: Apache-2.0
// The template engine's door: compile a source once, render it from any thread.
// Invariant: nothing throws from here; a bound that was reached says template_limit in its message.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_range.h"

namespace colibri::jinja {

struct Program;
class Interpreter;

struct Rendered {
  std::string text;
  std::vector<ByteRange> tainted;  // what came from values that were marked as the request's
};

/// Compiles a source; the error names the line.
Result<std::shared_ptr<const Program>> compile(std::string_view source);

/// How much work a render may be. A probe is a render that a loader makes: small, so that a hostile template costs
/// little.
enum class Effort { request, probe };

/// Renders once. `define_variables` gives the interpreter its variables; what they point to outlives the call.
Result<Rendered> render(const Program& program, const std::tm& now,
                        const std::function<void(Interpreter&)>& define_variables, Effort effort = Effort::request);

/// Whether a string literal of the template is exactly `word`.
bool mentions(const Program& program, std::string_view word);

}  // namespace colibri::jinja
