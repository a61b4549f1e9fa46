// SPDX-License-Identifier: Apache-2.0
// The command line's entry: parses, runs one command, returns its exit code (DESIGN: docs/OPERATIONS.md lists them).
#pragma once

namespace colibri {

int run_command_line(int argc, char** argv);

}  // namespace colibri
