// SPDX-License-Identifier: Apache-2.0
// The check that runs before a GPU serves: it passes where results are right, and the GPU's are where there is one.
#include "engine/self_check.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

TEST(SelfCheck, PassesOnEveryBackend) {
  for (const char* name : {"cpu", "cuda"}) {
    const auto backend = make_backend(name, 2);
    if (!backend.ok()) continue;  // no GPU here
    const Status status = self_check(**backend);
    EXPECT_TRUE(status.ok()) << name << ": " << status.error().message;
  }
}

}  // namespace
}  // namespace colibri
