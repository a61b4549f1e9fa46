// SPDX-License-Identifier: Apache-2.0
// How the template engine stops early: one exception type, thrown inside src/text/jinja only.
// Invariant: every entry point in program.h catches it; callers see a Result.
#pragma once

#include <string>

namespace colibri::jinja {

struct Fault {
  std::string message;
  int line = 0;  // of the template, 0 where not yet known
};

[[noreturn]] inline void fail(std::string message, int line = 0) { throw Fault{std::move(message), line}; }

/// A bound that protects the process was reached; the word template_limit is what callers look for.
[[noreturn]] inline void fail_limit(const std::string& what) { throw Fault{"template_limit: " + what}; }

}  // namespace colibri::jinja
