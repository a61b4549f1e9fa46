// SPDX-License-Identifier: Apache-2.0
// The table of backends: names, threads, and errors that say what to do.
#include <gtest/gtest.h>

#include "backend/backend.h"

namespace colibri {
namespace {

TEST(Backends, AreMadeByName) {
  EXPECT_EQ(make_backend("reference", 0).value()->name(), "reference");
  EXPECT_EQ(make_backend("cpu", 1).value()->name(), "cpu");
  EXPECT_EQ(make_backend("cpu", 3).value()->threads(), 3);
  EXPECT_GE(make_backend("cpu", 0).value()->threads(), 1);
  EXPECT_GT(make_backend("cpu", 1).value()->measure_flops(), 1e6);
}

TEST(Backends, AutoIsCudaWhereThereIsAUsableGpu) {
  const auto gpu = make_backend("cuda", 0);
  EXPECT_EQ(make_backend("auto", 1).value()->name(), gpu.ok() ? "cuda" : "cpu");
  if (gpu.ok()) return;
  EXPECT_EQ(gpu.error().code, Exit::unavailable);
  EXPECT_TRUE(gpu.error().message.starts_with("no usable GPU: ")) << gpu.error().message;
  EXPECT_TRUE(gpu.error().message.ends_with("; use --device cpu")) << gpu.error().message;
}

TEST(Backends, RefuseUnknownNamesAndThreadCounts) {
  for (const auto* name : {"", "CPU", "cpu ", "tpu"}) EXPECT_EQ(make_backend(name, 0).error().code, Exit::usage);
  for (const int threads : {-1, 1025}) EXPECT_EQ(make_backend("cpu", threads).error().code, Exit::usage);
}

}  // namespace
}  // namespace colibri
