// SPDX-License-Identifier: Apache-2.0
// Texts with calls, whole and broken, and that no cut into pieces changes what is found.
#include "server/tool_calls.h"

#include <gtest/gtest.h>

#include <limits>

namespace colibri {
namespace {

struct Found {
  std::string content;
  std::vector<std::pair<std::string, std::string>> calls;  // name, arguments
  bool operator==(const Found&) const = default;
};

void fold(const std::vector<ToolDelta>& deltas, Found& found) {
  for (const ToolDelta& delta : deltas) {
    if (delta.call < 0) {
      EXPECT_FALSE(delta.text.empty());
      found.content += delta.text;
      continue;
    }
    const auto index = static_cast<std::size_t>(delta.call);
    if (!delta.name.empty()) {
      EXPECT_EQ(index, found.calls.size()) << "the name comes first, and once";
      found.calls.emplace_back(delta.name, "");
    }
    ASSERT_LT(index, found.calls.size());
    EXPECT_EQ(index + 1, found.calls.size()) << "calls do not interleave";
    found.calls[index].second += delta.text;
  }
}

Found parse(const std::vector<std::string_view>& pieces, int max_calls = std::numeric_limits<int>::max()) {
  ToolCallParser parser(max_calls);
  Found found;
  for (const std::string_view piece : pieces) fold(parser.push(piece), found);
  fold(parser.finish(), found);
  return found;
}

struct Case {
  std::string text;
  Found found;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"", {}},
      {"plain text", {"plain text", {}}},
      {"  \n", {"  \n", {}}},
      {"a < b <tool> <tool_cal", {"a < b <tool> <tool_cal", {}}},
      {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", {"", {{"f", "{\"a\": 1}"}}}},
      {"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", {"", {{"f", "{}"}}}},
      {"Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n",
       {"Let me see.\n", {{"f", "{}"}}}},
      {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, {\"y\": \"}]</tool_call>\\\"\"}]}}\n</tool_call>\n"
       "<tool_call>\n{\"name\": \"g\\n\", \"arguments\": {\"s\": \"\\\\\"}}\n</tool_call>",
       {"", {{"f", "{\"x\": [1, {\"y\": \"}]</tool_call>\\\"\"}]}"}, {"g\n", "{\"s\": \"\\\\\"}"}}}},
      {"<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> and more", {" and more", {{"f", "{}"}}}},
      // The members in another order, without arguments, or with arguments as text.
      {"<tool_call>{\"arguments\": {\"a\":[2]}, \"name\": \"f\"}</tool_call>", {"", {{"f", "{\"a\":[2]}"}}}},
      {"<tool_call>{\"name\": \"f\"}</tool_call>", {"", {{"f", "{}"}}}},
      {"<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", {"", {{"f", "{}"}}}},
      {"<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\":1}\"}</tool_call>", {"", {{"f", "{\"a\":1}"}}}},
      // No calls after all.
      {"<tool_call> is a tag", {"<tool_call> is a tag", {}}},
      {"<tool_call>{\"name\": 5}</tool_call>!", {"<tool_call>{\"name\": 5}</tool_call>!", {}}},
      {"<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
       {"<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>", {}}},
      {"<tool_call>{nonsense}</tool_call> x", {"<tool_call>{nonsense}</tool_call> x", {}}},
      {"<tool_call>{\"nam", {"<tool_call>{\"nam", {}}},
      {"<tool_call>", {"<tool_call>", {}}},
      // Cut by the length, or left open: what there is stays visible.
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b", {"", {{"f", "{\"a\": \"b"}}}},
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}", {"", {{"f", "{\"a\": 1}"}}}},
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool", {"", {{"f", "{\"a\": 1}"}}}},
      {"<tool_call>{\"name\": \"f\"}", {"", {{"f", "{}"}}}},
      // Broken after the arguments began.
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": </tool_call>b", {"b", {{"f", "{\"a\": "}}}},
      {"<tool_call>{\"name\": \"f\", \"arguments\": {}} hm", {"} hm", {{"f", "{}"}}}},
  };
  return all;
}

TEST(ToolCalls, WholeTexts) {
  for (const Case& one : cases()) EXPECT_EQ(parse({one.text}), one.found) << one.text;
}

TEST(ToolCalls, EveryCutInTwoAndByByte) {
  for (const Case& one : cases()) {
    const std::string_view text = one.text;
    for (std::size_t cut = 0; cut <= text.size(); ++cut)
      EXPECT_EQ(parse({text.substr(0, cut), text.substr(cut)}), one.found) << one.text << " at " << cut;
    std::vector<std::string_view> bytes;
    for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
    EXPECT_EQ(parse(bytes), one.found) << one.text;
  }
}

TEST(ToolCalls, EveryCutInThree) {
  for (const Case& one : cases()) {
    const std::string_view text = one.text;
    if (text.size() > 120) continue;
    for (std::size_t a = 0; a <= text.size(); ++a)
      for (std::size_t b = a; b <= text.size(); ++b)
        ASSERT_EQ(parse({text.substr(0, a), text.substr(a, b - a), text.substr(b)}), one.found)
            << one.text << " at " << a << ", " << b;
  }
}

TEST(ToolCalls, LongHeadIsJudgedAlikeWhole) {
  const std::string name(2000, 'n');
  const std::string text = "<tool_call>{\"name\": \"" + name + "\", \"arguments\": {\"a\":1}}</tool_call>";
  const Found wanted{"", {{name, "{\"a\":1}"}}};
  EXPECT_EQ(parse({text}), wanted);
  for (std::size_t cut = 1000; cut < 1100; ++cut)
    EXPECT_EQ(parse({std::string_view(text).substr(0, cut), std::string_view(text).substr(cut)}), wanted) << cut;
}

TEST(ToolCalls, HoldsBackOnlyWhatCouldBeTheTag) {
  ToolCallParser parser(8);
  EXPECT_EQ(parser.push("a <tool"), (std::vector<ToolDelta>{{.text = "a "}}));
  EXPECT_EQ(parser.push("s"), (std::vector<ToolDelta>{{.text = "<tools"}}));
  EXPECT_EQ(parser.push("<tool_call>{\"name\": \"f\", \"arguments\": {\"a"),
            (std::vector<ToolDelta>{{.call = 0, .name = "f"}, {.call = 0, .text = "{\"a"}}));
  EXPECT_EQ(parser.push("b\""), (std::vector<ToolDelta>{{.call = 0, .text = "b\""}}));
}

TEST(ToolCalls, StopsAfterTheLastAllowedCall) {
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(parse({call + "\n" + call + " text"}, 1), (Found{"", {{"f", "{}"}}}));
  ToolCallParser parser(1);
  parser.push(call);
  EXPECT_TRUE(parser.done());
}

TEST(ToolCalls, LinearInTheText) {
  ToolCallParser parser(8);
  Found found;
  const std::string text = "<tool_call>{\"arguments\": {\"a\": \"";
  fold(parser.push(text), found);
  for (int i = 0; i < 300'000; ++i) fold(parser.push("</tool_cal"), found);
  fold(parser.finish(), found);
  EXPECT_EQ(found.content.size(), text.size() + 3'000'000);
}

}  // namespace
}  // namespace colibri
