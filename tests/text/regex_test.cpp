// SPDX-License-Identifier: Apache-2.0
// Oniguruma's patterns: what they match against the reference, and which are refused.
#include "text/regex.h"

#include "text/cases.h"

namespace colibri {
namespace {

TEST(Regex, MatchesAsTheReference) {
  const Json stored = stored_file("patterns");
  const std::string& text = stored.find("text")->as_string();
  ASSERT_GE(stored.find("matches")->as_object().size(), 50u);
  for (const auto& [pattern, expected] : stored.find("matches")->as_object()) {
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.error().message;
    std::vector<ByteRange> found;
    ASSERT_TRUE(Regex::Matcher(*regex).find_all(text, found).ok());
    Json::Array matches;
    for (const ByteRange& range : found)
      if (range.begin < range.end) matches.push_back(text.substr(range.begin, range.end - range.begin));
    EXPECT_EQ(write_json(matches), write_json(expected)) << pattern;
  }
}

TEST(Regex, RefusesWhatOnigurumaMeansOtherwise) {
  for (const char* pattern : {"(?m)a", "(?is:a)", "a{2}+", "a{1,2}+", "[a[b]]", "[[a]]", "[a&&[b[c]]]", "[a&&[b&&c]]",
                              "[^a&&b]", "[&&a]", "[a&&]", "[\\W]", "[[:graph:]]", "[[:alpha"}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.error().code, Exit::data);
    EXPECT_NE(regex.error().message.find("is not supported"), std::string::npos) << regex.error().message;
  }
  for (const char* pattern : {"[", "[a&&", "[a[", "\\p{L", "\\u12", "\\p{Nonsense}", "[]", "\\"})
    EXPECT_FALSE(Regex::compile(pattern).ok()) << pattern;
}

}  // namespace
}  // namespace colibri
