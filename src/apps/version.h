// SPDX-License-Identifier: Apache-2.0
// Which build this is.
#pragma once

namespace colibri {

/// The project's version, as 0.1.0, and the commit that the build was configured at.
const char* version();
const char* commit();

}  // namespace colibri
