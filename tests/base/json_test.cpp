// SPDX-License-Identifier: Apache-2.0
// The JSON facade against RFC 8259, hostile text and the compiler's own rounding of decimal numbers.
#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace colibri {
namespace {

Json parsed(std::string_view text, const JsonLimits& limits = {}) {
  Result<Json> json = parse_json(text, limits);
  EXPECT_TRUE(json.ok()) << text.substr(0, 100) << ": " << json.error().message;
  return json.ok() ? *std::move(json) : Json("not parsed");
}

std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  const Result<Json> json = parse_json(text, limits);
  if (json.ok()) return "accepted";
  EXPECT_EQ(json.error().code, Exit::data);
  EXPECT_EQ(json.error().message.find('\n'), std::string::npos) << "a message is one line";
  EXPECT_LT(json.error().message.size(), 300u);
  return json.error().message;
}

bool mentions(std::string_view message, std::string_view part) { return message.find(part) != std::string_view::npos; }

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonParse, EveryKind) {
  const Json json = parsed(R"( {"n":null,"t":true,"f":false,"i":-7,"d":2.5,"s":"x","a":[1,[]],"o":{}} )");
  EXPECT_TRUE(json.find("n")->is_null());
  EXPECT_TRUE(json.find("t")->as_bool());
  EXPECT_FALSE(json.find("f")->as_bool());
  EXPECT_EQ(json.find("i")->as_int(), -7);
  EXPECT_EQ(json.find("d")->as_double(), 2.5);
  EXPECT_EQ(json.find("s")->as_string(), "x");
  ASSERT_EQ(json.find("a")->as_array().size(), 2u);
  EXPECT_TRUE(json.find("a")->as_array()[1].as_array().empty());
  EXPECT_TRUE(json.find("o")->as_object().empty());
  EXPECT_EQ(json.find("absent"), nullptr);
  EXPECT_EQ(json.find("i")->find("a member of a number"), nullptr);
}

TEST(JsonParse, ScalarsStandAlone) {
  EXPECT_EQ(parsed("7").as_int(), 7);
  EXPECT_EQ(parsed("0.5").as_double(), 0.5);
  EXPECT_EQ(parsed("\"x\"").as_string(), "x");
  EXPECT_TRUE(parsed(" null\r\n\t").is_null());
}

TEST(JsonParse, KeepsTheOrderOfMembers) {
  const Json json = parsed(R"({"z":1,"a":2,"m":3,"":4})");
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.as_object()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"z", "a", "m", ""}));
}

TEST(JsonParse, RefusesWhatIsNoJson) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "[1",
                           "[1,",
                           "[1,]",
                           "{,}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{'a':1}",
                           "'a'",
                           "\"a",
                           "\"\\x\"",
                           "\"\\u12g4\"",
                           "\"\\u12\"",
                           "tru",
                           "True",
                           "nul",
                           "NaN",
                           "nan",
                           "Infinity",
                           "-Infinity",
                           "-",
                           "+1",
                           "01",
                           "-01",
                           "1.",
                           ".5",
                           "1e",
                           "1e+",
                           "0x10",
                           "1 2",
                           "[] []",
                           "{}x",
                           "[1]]",
                           "// c\n1",
                           "/* c */1",
                           "[1 2]",
                           "{\"a\" 1}",
                           "\xef\xbb\xbf{}"})
    EXPECT_NE(refusal(text), "accepted") << text;
}

TEST(JsonParse, RefusesBytesThatTextMayNotHold) {
  EXPECT_NE(refusal(std::string_view("\"a\0b\"", 5)), "accepted") << "a raw NUL";
  EXPECT_NE(refusal(std::string_view("{}\0", 3)), "accepted") << "a NUL behind the document";
  EXPECT_NE(refusal("\"a\nb\""), "accepted") << "a raw line break in a string";
  EXPECT_NE(refusal("\"a\tb\""), "accepted") << "a raw tab in a string";
}

TEST(JsonParse, RefusesBadUtf8) {
  for (const char* bytes :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x80\x80", "\xe2\x82", "\xed\xa0\x80", "\xed\xbf\xbf",
        "\xf0\x80\x80\x80", "\xf0\x9f\x98", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xfe", "\xff", "\xe2\x28\xa1"}) {
    EXPECT_NE(refusal("\"" + std::string(bytes) + "\""), "accepted");
    EXPECT_NE(refusal("{\"" + std::string(bytes) + "\":1}"), "accepted") << "in a key";
    EXPECT_NE(refusal(bytes), "accepted") << "outside of strings";
  }
}

TEST(JsonParse, DecodesTextAndEscapes) {
  EXPECT_EQ(parsed(R"("\"\\\/\b\f\n\r\t")").as_string(), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(parsed(R"("\u00e9\u20AC\ud83d\ude00")").as_string(), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(parsed("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\"").as_string(),
            "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf");
  EXPECT_EQ(parsed(R"("a\u0000b")").as_string(), std::string("a\0b", 3));
  EXPECT_EQ(parsed("\"\x7f\"").as_string(), "\x7f");
}

TEST(JsonParse, RefusesLoneSurrogates) {
  for (const char* text : {R"("\ud800")", R"("\udc00")", R"("\ud83dx")", R"("\ud83d\n")", R"("\ud83d\ud83d")",
                           R"("\ude00\ud83d")", R"({"\ud800":1})"})
    EXPECT_NE(refusal(text), "accepted") << text;
}

TEST(JsonParse, RefusesDuplicateKeys) {
  EXPECT_TRUE(mentions(refusal(R"({"a":1,"b":2,"a":3})"), "duplicate key \"a\""));
  EXPECT_NE(refusal(R"([{"x":{"a":1,"\u0061":2}}])"), "accepted") << "an escape spells the same key";
  parsed(R"([{"a":1},{"a":{"a":2}}])");
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += "\"key" + std::to_string(i) + "\":0,";
  parsed(many + "\"last\":0}");
  EXPECT_TRUE(mentions(refusal(many + "\"key500\":0}"), "\"key500\""));
}

TEST(JsonParse, BoundsTheKeyInTheMessage) {
  const std::string key(100'000, 'k');
  EXPECT_TRUE(mentions(refusal("{\"" + key + "\":1,\"" + key + "\":1}"), "duplicate key"));
  EXPECT_TRUE(mentions(refusal(R"({"a\nb":1,"a\nb":1})"), R"("a\nb")"));
}

TEST(JsonParse, BoundsDepth) {
  parsed(nested(64));
  EXPECT_TRUE(mentions(refusal(nested(65)), "nested too deep"));
  EXPECT_TRUE(mentions(refusal(nested(100'000)), "nested too deep"));
  EXPECT_TRUE(mentions(refusal(std::string(100'000, '[')), "nested too deep"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_TRUE(mentions(refusal(objects), "nested too deep"));
  JsonLimits flat;
  flat.depth = 1;
  parsed("[1,2]", flat);
  EXPECT_TRUE(mentions(refusal("[[]]", flat), "nested too deep"));
}

TEST(JsonParse, BoundsBytesAndValues) {
  JsonLimits limits;
  limits.bytes = 8;
  parsed("[1,2,3] ", limits);
  EXPECT_TRUE(mentions(refusal("[1,2,3]  ", limits), "9 bytes"));
  limits = {};
  limits.values = 4;  // the array itself is one of them
  parsed("[1,2,3]", limits);
  EXPECT_TRUE(mentions(refusal("[1,2,3,4]", limits), "more values"));
  EXPECT_TRUE(mentions(refusal(R"({"a":[[],{},[]],"b":1})", limits), "more values"));
}

TEST(JsonParse, IntegersStayExact) {
  EXPECT_EQ(parsed("9223372036854775807").as_int(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parsed("-9223372036854775808").as_int(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parsed("9007199254740993").as_int(), 9007199254740993);
  EXPECT_EQ(parsed("-0").as_double(), 0.0);
  EXPECT_TRUE(parsed("1.0").is_double());
  EXPECT_TRUE(parsed("1e2").is_double());
}

TEST(JsonParse, WiderIntegersBecomeDoubles) {
  EXPECT_EQ(parsed("9223372036854775808").as_double(), 9223372036854775808.0);
  EXPECT_EQ(parsed("18446744073709551615").as_double(), 18446744073709551615.0);
  EXPECT_EQ(parsed("-9223372036854775809").as_double(), -9223372036854775809.0);
  EXPECT_EQ(parsed("123456789012345678901234567890").as_double(), 123456789012345678901234567890.0);
  EXPECT_EQ(parsed("1" + std::string(308, '0')).as_double(), 1e308);
  EXPECT_TRUE(mentions(refusal("1" + std::string(309, '0')), "too large"));
}

TEST(JsonParse, DoublesAreRoundedAsTheCompilerRoundsThem) {
  const struct {
    const char* text;
    double value;
  } cases[] = {
      {"0.1", 0.1},
      {"1e23", 1e23},
      {"8.5e22", 8.5e22},
      {"9007199254740993.0", 9007199254740993.0},
      {"9007199254740992.99999999999999999999999", 9007199254740992.99999999999999999999999},
      {"0.000001", 0.000001},
      {"1e-6", 1e-6},
      {"1E+2", 100.0},
      {"-2.5e-3", -2.5e-3},
      {"5e-324", 5e-324},
      {"2.4703282292062328e-324", 2.4703282292062328e-324},
      {"2.2250738585072011e-308", 2.2250738585072011e-308},
      {"2.2250738585072014e-308", 2.2250738585072014e-308},
      {"1.7976931348623157e308", 1.7976931348623157e308},
      {"6.02214076e23", 6.02214076e23},
      {"3.141592653589793238462643383279502884", 3.141592653589793238462643383279502884},
      {"7.2057594037927933e16", 7.2057594037927933e16},
      {"1.00000000000000011102230246251565404236316680908203125", 1.0},
      {"1.00000000000000011102230246251565404236316680908203126", 1.0000000000000002},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(parsed(text).as_double(), value) << text;
  EXPECT_TRUE(std::signbit(parsed("-0.0").as_double()));
  const std::string shifted = "0." + std::string(400, '0') + "1e401";
  EXPECT_EQ(parsed(shifted).as_double(), 1.0);
}

TEST(JsonParse, NumbersBeyondDouble) {
  for (const char* text : {"1e400", "-1e400", "[1e309]", "1.8e308", "1e99999999999999999999"})
    EXPECT_NE(refusal(text), "accepted") << text;
  EXPECT_EQ(parsed("1e-400").as_double(), 0.0);
  EXPECT_TRUE(std::signbit(parsed("-1e-400").as_double()));
  EXPECT_EQ(parsed("0e400").as_double(), 0.0);
  EXPECT_EQ(parsed("[1e-400,2]").as_array()[1].as_int(), 2) << "the next number starts afresh";
}

TEST(JsonParse, NamesThePlace) {
  EXPECT_TRUE(mentions(refusal("[1,\n  x]"), "line 2 column 3:")) << refusal("[1,\n  x]");
  EXPECT_TRUE(mentions(refusal("{\"a\":1}\n\n!"), "line 3 column 1:")) << refusal("{\"a\":1}\n\n!");
  EXPECT_TRUE(mentions(refusal("x"), "line 1 column 1:")) << refusal("x");
  EXPECT_TRUE(mentions(refusal("[1,\n2"), "ends too early")) << refusal("[1,\n2");
}

TEST(JsonParse, ManyMembersTakeTimeInProportion) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"token" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  const Json json = parsed(text + "\"end\":0}");
  ASSERT_EQ(json.as_object().size(), 200'001u);
  EXPECT_EQ(json.as_object()[199'999].second.as_int(), 199'999);
}

TEST(JsonWrite, Compact) {
  Json json;
  json.set("a", Json::Array{1, -2.5, true, nullptr, "x"}).as_array().emplace_back(Json::Object{});
  json.set("b", Json::Array{});
  EXPECT_EQ(write_json(json), R"({"a":[1,-2.5,true,null,"x",{}],"b":[]})");
}

TEST(JsonWrite, IndentedAsPythonDoes) {
  const Json json = parsed(R"({"a":[1,{"b":[]}],"c":{},"d":"x"})");
  // json.dumps(..., indent=2)
  EXPECT_EQ(write_json(json, 2),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {},\n  \"d\": \"x\"\n}");
}

TEST(JsonWrite, EscapesWhatJsonAsksForAndKeepsTheRest) {
  EXPECT_EQ(write_json("\"\\/\b\f\n\r\t"), R"("\"\\/\b\f\n\r\t")");
  EXPECT_EQ(write_json(std::string("\0\x1f", 2)), R"("\u0000\u001f")");
  EXPECT_EQ(write_json("\xe2\x82\xac\xf0\x9f\x98\x80\x7f"), "\"\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"");
  Json json;
  json.set("a\"b", 1);
  EXPECT_EQ(write_json(json), R"({"a\"b":1})");
}

TEST(JsonWrite, Numbers) {
  EXPECT_EQ(write_json(1.0), "1.0");
  EXPECT_EQ(write_json(0.1), "0.1");
  EXPECT_EQ(write_json(1e300), "1e+300");
  EXPECT_EQ(write_json(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(write_json(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(write_json(-std::numeric_limits<double>::infinity()), "null");
}

TEST(JsonWrite, DoublesComeBackEqual) {
  std::uint64_t state = 1;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double value = 0;
    std::memcpy(&value, &state, sizeof value);
    if (!std::isfinite(value)) continue;
    const std::string text = write_json(value);
    const Json back = parsed(text);
    ASSERT_TRUE(back.is_double()) << text;
    ASSERT_EQ(back.as_double(), value) << text;
  }
}

TEST(JsonWrite, DocumentsComeBackEqual) {
  const Json json = parsed(R"({"z":[1,2.5,1e-7,-0.0,"\u0000é"],"a":{"k":null,"":false},"n":9223372036854775807})");
  EXPECT_EQ(parsed(write_json(json)), json);
  EXPECT_EQ(parsed(write_json(json, 4)), json);
}

TEST(JsonValue, SetReplacesOrAppends) {
  Json json;
  json.set("a", 1);
  json.set("b", 2);
  json.set("a", "new");
  EXPECT_EQ(write_json(json), R"({"a":"new","b":2})");
}

TEST(JsonValue, WideUnsignedBecomesDouble) {
  EXPECT_TRUE(Json(std::uint64_t{1} << 62).is_int());
  EXPECT_EQ(Json(std::numeric_limits<std::uint64_t>::max()).as_double(), 18446744073709551615.0);
}

TEST(JsonValueDeathTest, TheWrongKindIsABrokenPromise) {
  EXPECT_EXIT(Json("x").as_int(), testing::ExitedWithCode(70), "CHECK.*failed");
}

}  // namespace
}  // namespace colibri
