// SPDX-License-Identifier: Apache-2.0
// `colibri inspect`: what a checkpoint is and needs, from its config and headers alone.
#include <cstdio>

#include "apps/session.h"
#include "model/describe.h"

namespace colibri {

Status inspect_command(const InspectOptions& options) {
  TRY(description, inspect_model(options.model));
  if (options.json) {
    print_json(description);
  } else {
    std::fputs(describe_text(description).c_str(), stdout);
  }
  return {};
}

}  // namespace colibri
