// SPDX-License-Identifier: Apache-2.0
// The command line's entry: parses, runs one command, returns its exit code (DESIGN: docs/OPERATIONS.md lists them).
#pragma once

#include <string>

namespace colibri {

int run_command_line(int argc, char** argv);

/// The published shapes that `bench --synthetic` builds, separated by commas.
std::string synthetic_names();

}  // namespace colibri
