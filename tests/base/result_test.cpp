// SPDX-License-Identifier: Apache-2.0
// Errors as values: what TRY binds, what it returns, and how places stack up in front of a message.
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace colibri {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return data_error(std::to_string(n) + " is odd");
  return n / 2;
}

Result<int> quarter(int n) {
  TRY(first, half(n));
  TRY(second, half(first));
  return second;
}

Status all_even(int a, int b) {
  TRY(half_a, half(a));
  (void)half_a;
  TRY_STATUS(half(b).ok() ? Status{} : Status(Error{Exit::config, "b"}));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good = half(8);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(*good, 4);
  const Result<int> bad = half(7);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, Exit::data);
  EXPECT_EQ(bad.error().message, "7 is odd");
}

TEST(Result, TryBindsTheValueOrReturnsTheError) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_EQ(quarter(5).error().message, "5 is odd");
}

TEST(Result, TryStatusReturnsTheError) {
  EXPECT_TRUE(all_even(2, 4).ok());
  EXPECT_EQ(all_even(1, 4).error().message, "1 is odd");
  EXPECT_EQ(all_even(2, 3).error().code, Exit::config);
}

TEST(Result, PlacesArePrepended) {
  const Result<int> located = half(7).at("header").at("model.safetensors");
  EXPECT_EQ(located.error().message, "model.safetensors: header: 7 is odd");
  EXPECT_EQ(*half(8).at("nowhere"), 4);
  EXPECT_EQ(Status(data_error("x")).at("place").error().message, "place: x");
  EXPECT_TRUE(Status().at("place").ok());
}

TEST(Result, CarriesTypesThatOnlyMove) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  const auto pass = [&]() -> Result<std::unique_ptr<int>> {
    TRY(pointer, make());
    return std::move(pointer);
  };
  EXPECT_EQ(**pass(), 5);
}

TEST(Result, AStringIsAValueAndNotAnError) {
  const Result<std::string> text = std::string("fine");
  EXPECT_EQ(text->size(), 4u);
}

TEST(ResultDeathTest, AskingForWhatIsNotThereEndsTheProcess) {
  EXPECT_EXIT((void)half(7).value(), testing::ExitedWithCode(70), "internal error: .*CHECK\\(ok\\(\\)\\) failed");
  EXPECT_EXIT((void)half(8).error(), testing::ExitedWithCode(70), "CHECK");
}

}  // namespace
}  // namespace colibri
