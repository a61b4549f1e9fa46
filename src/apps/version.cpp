// SPDX-License-Identifier: Apache-2.0
// The only file that is compiled again when the commit changes; CMake defines both macros for it alone.
#include "apps/version.h"

namespace colibri {

const char* version() { return COLIBRI_VERSION; }
const char* commit() { return COLIBRI_COMMIT; }

}  // namespace colibri
