// SPDX-License-Identifier: Apache-2.0
// Every published configuration, as inspect takes it: the sizes that its makers state and transformers counts, or a
// refusal of one line. The table of outcomes stands in docs/FAMILIES.md.
#include <cmath>

#include "model/describe.h"
#include "model/document.h"
#include "model/published.h"

namespace colibri {
namespace {

using namespace test;

/// "30.5B": the number, and half of its last digit; millions are stated in hundreds.
struct Stated {
  double value = 0;
  double rounding = 0;
};

Stated stated(const std::string& text) {
  const double unit = text.back() == 'T' ? 1e12 : text.back() == 'B' ? 1e9 : 1e6;
  const std::size_t point = text.find('.');
  const double digits = point == std::string::npos ? 0 : static_cast<double>(text.size() - 2 - point);
  return {std::stod(text) * unit, unit == 1e6 ? 50e6 : 0.5 * unit * std::pow(10.0, -digits)};
}

/// "30.53 B"
std::string billions(const Json& count) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f B", count.as_double() / 1e9);
  return text;
}

TEST(Published, SizesAreTheStatedOnes) {
  TempDir dir;
  std::string table =
      "| configuration | family | weights | total | active | stated | context |\n|---|---|---|---|---|---|---|\n";
  std::string refusals = "| configuration | refused |\n|---|---|\n";
  std::size_t loaded = 0;
  for (const Published& one : all_published()) {
    SCOPED_TRACE(one.name);
    const std::string path = dir.write("config.json", one.config);
    const auto json = inspect_model(path);
    if (!json.ok()) {
      expect_error(json, Exit::data, {"config.json"});
      const std::string& why = json.error().message;
      refusals += "| " + one.name + " | `" + why.substr(path.size() + 2, why.find(';') - path.size() - 2) + "` |\n";
      continue;
    }
    ++loaded;
    const Json& parameters = *json->find("parameters");
    for (const auto& [key, text] : {std::pair{"total", one.total}, std::pair{"active", one.active}}) {
      if (text == "-") continue;
      const Stated fact = stated(text);
      EXPECT_NEAR(parameters.find(key)->as_double(), fact.value, 0.02 * fact.value + fact.rounding) << key;
    }
    if (one.counted != "-") {
      EXPECT_EQ(std::to_string(parameters.find("total")->as_int()), one.counted);
    }
    const Json& format = *json->find("weight_format");
    const std::string facts = one.total == "-" ? "" : one.total + ", " + one.active;
    table += "| " + one.name + " | " + json->find("family")->as_string() + " | " +
             (format.is_null() ? "" : format.as_string()) + " | " + billions(*parameters.find("total")) + " | " +
             billions(*parameters.find("active")) + " | " + facts + " | " +
             std::to_string(json->find("context")->as_int()) + " |\n";
  }
  EXPECT_GE(loaded, 67U);
  expect_section("docs/FAMILIES.md", "published", table + "\n" + refusals);
}

}  // namespace
}  // namespace colibri
