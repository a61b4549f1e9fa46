// SPDX-License-Identifier: Apache-2.0
// Frequencies against those of Hugging Face transformers (data/rope_cases.json, made by make_rope_cases.py).
#include "model/rope.h"

#include "model/fixture.h"

namespace colibri {
namespace {

using namespace test;

Result<RopeSpec> rope_of(const Json& config) {
  ConfigReader reader(config, "config.json");
  const Json* head_dim = config.find("head_dim");
  int context = 4096;
  RopeSpec rope = parse_rope(reader, head_dim == nullptr ? 64 : static_cast<int>(head_dim->as_int()), context, 10000);
  TRY_STATUS(reader.status());
  return rope;
}

TEST(Rope, FrequenciesAreThoseOfTransformers) {
  const Json cases = json_file(kSource + "/tests/model/data/rope_cases.json");
  ASSERT_GE(cases.as_array().size(), 13U);
  for (const Json& item : cases.as_array()) {
    SCOPED_TRACE(item.find("name")->as_string());
    const auto rope = rope_of(*item.find("config"));
    expect_ok(rope);
    const Json::Array& expected = item.find("inv_freq")->as_array();
    ASSERT_EQ(rope->inv_freq.size(), expected.size());
    EXPECT_EQ(static_cast<std::size_t>(rope->dim), 2 * expected.size());
    // fp32 on both sides: a power, a division and a blend may each differ by a unit in the last place.
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(rope->inv_freq[i], expected[i].as_double(), 4e-7 * expected[i].as_double()) << i;
    EXPECT_NEAR(rope->scale, item.find("scale")->as_double(), 1e-6);
  }
}

TEST(Rope, PartialRotaryTurnsTheFirstPart) {
  const auto rope = rope_of(json_of(R"({"partial_rotary_factor": 0.25, "rope_theta": 10000})"));
  expect_ok(rope);
  EXPECT_EQ(rope->dim, 16);
  ASSERT_EQ(rope->inv_freq.size(), 8U);
  EXPECT_FLOAT_EQ(rope->inv_freq[4], 0.01F);  // 10000 ^ (-8 / 16)
}

TEST(Rope, RefusesWhatItCannotCompute) {
  const auto refused = [](const char* config, std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(config);
    expect_error(rope_of(json_of(config)), Exit::data, parts);
  };
  refused(R"({"rope_scaling": {"type": "ntk", "factor": 2.0}})", {"rope_scaling", "ntk"});
  refused(R"({"rope_scaling": {"type": "longrope", "factor": 2.0}})", {"original_max_position_embeddings", "missing"});
  refused(R"({"rope_scaling": {"type": "longrope", "original_max_position_embeddings": 64, "short_factor": [1, 2]}})",
          {"short_factor", "32"});
  refused(R"({"rope_parameters": {"rope_type": "dynamic"}})", {"rope_parameters", "factor", "missing"});
  refused(R"({"rope_scaling": {"type": "yarn"}})", {"rope_scaling", "factor", "missing"});
  refused(R"({"rope_theta": 1e6, "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0}}})",
          {"rope_parameters", "full_attention", "kind of layer"});
  refused(R"({"rope_theta": 0})", {"rope_theta"});
  refused(R"({"rope_theta": -5.0})", {"rope_theta"});
  refused(R"({"rope_theta": 1e300})", {"rope_theta"});
  refused(R"({"rope_theta": "10000"})", {"rope_theta"});
  refused(R"({"rope_scaling": {"type": "linear"}})", {"factor", "missing"});
  refused(R"({"rope_scaling": {"type": "linear", "factor": 0}})", {"factor"});
  refused(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}})",
          {"high_freq_factor"});
  refused(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4, "beta_fast": -1}})", {"beta_fast"});
  refused(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 0}})",
          {"original_max_position_embeddings"});
  refused(R"({"rope_scaling": [1]})", {"rope_scaling", "object"});
  refused(R"({"rope_scaling": {"rope_type": 3}})", {"rope_type"});
  refused(R"({"partial_rotary_factor": 0.01})", {"rotary"});
  refused(R"({"partial_rotary_factor": 0.55})", {"rotary"});
}

}  // namespace
}  // namespace colibri
