// SPDX-License-Identifier: Apache-2.0
// The examples of FIPS 180-4.
#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string_view>

namespace colibri {
namespace {

std::string hash(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace colibri
