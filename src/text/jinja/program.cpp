// SPDX-License-Identifier: Apache-2.0
// The wall behind which the engine's exceptions stay.
#include "text/jinja/program.h"

#include <algorithm>
#include <new>

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"
#include "text/jinja/unicode.h"

namespace colibri::jinja {
namespace {

constexpr std::size_t kMaxHeapBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxSteps = 1'000'000;
constexpr std::size_t kMaxMessage = 500;  // characters

Error error_at(const std::string& message, int line) {
  std::string one_line = line > 0 ? "line " + std::to_string(line) + ": " : "";
  one_line += message.substr(0, code_point_offset(message, kMaxMessage));  // it may quote the request
  std::replace_if(
      one_line.begin(), one_line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return data_error(std::move(one_line));
}

}  // namespace

Result<std::shared_ptr<const Program>> compile(std::string_view source) {
  try {
    return parse(source);
  } catch (const Fault& fault) {
    return error_at(fault.message, fault.line);
  } catch (const std::bad_alloc&) {
    return data_error("template_limit: out of memory");
  }
}

Result<Rendered> render(const Program& program, const std::tm& now,
                        const std::function<void(Interpreter&)>& define_variables, Effort effort) {
  const std::size_t share = effort == Effort::probe ? 50 : 1;
  int line = 0;
  try {
    Heap heap(kMaxHeapBytes / share, kMaxSteps / share);
    Interpreter interpreter(program, heap, now);
    Builder out(heap, Interpreter::kMaxOutputBytes);
    try {
      define_variables(interpreter);
      interpreter.run(out);
    } catch (const Fault&) {
      line = interpreter.line();
      throw;
    }
    return Rendered{out.take(), std::move(out.tainted())};
  } catch (const Fault& fault) {
    return error_at(fault.message, line);
  } catch (const std::bad_alloc&) {
    return data_error("template_limit: out of memory");
  }
}

bool mentions(const Program& program, std::string_view word) {
  return std::any_of(program.strings.begin(), program.strings.end(), [&](const Str* s) { return s->text == word; });
}

}  // namespace colibri::jinja
