// SPDX-License-Identifier: Apache-2.0
// Streamed text: equal to the whole, never half a code point, never a part of a stop string.
#include "text/stream.h"

#include <random>

#include "text/cases.h"

namespace colibri {
namespace {

/// The ids of single bytes in the bundled vocabulary.
Ids byte_ids(std::string_view bytes) {
  Ids ids;
  for (const char c : bytes) {
    TokenId id = 0;
    while (bundled_tokenizer().token_bytes(id) != std::string(1, c)) ++id;
    ids.push_back(id);
  }
  return ids;
}

std::vector<std::string> streamed(const Ids& ids) {
  Detokenizer detokenizer(bundled_tokenizer(), true);
  std::vector<std::string> parts;
  for (const TokenId id : ids) parts.push_back(detokenizer.push(id));
  parts.push_back(detokenizer.flush());
  return parts;
}

using Parts = std::vector<std::string>;

TEST(Detokenizer, HoldsBytesUntilTheCodePointIsWhole) {
  EXPECT_EQ(streamed(byte_ids("\xC4\x8F")), (Parts{"", "\u010F", ""}));
  EXPECT_EQ(streamed(byte_ids("\U0001FAE0")), (Parts{"", "", "", "\U0001FAE0", ""}));
  EXPECT_EQ(streamed(byte_ids("a\u9F9C!")), (Parts{"a", "", "", "\u9F9C", "!", ""}));
  for (const char* text : {"\U0001FAE0", "\U0001F979", "\u9F9C", "\u2705",
                           "\u5BEB\u4E00\u9996\u95DC\u65BC\u52C7\u6562\u7684\u6C34\u624B\u7684\u8A69"}) {
    const Ids ids = bundled_tokenizer().encode(text, Specials::plain).value();
    ASSERT_GT(ids.size(), 1u);
    std::string joined;
    for (const std::string& part : streamed(ids)) {
      EXPECT_TRUE(is_valid_utf8(part));
      EXPECT_EQ(part.find("\uFFFD"), std::string::npos);
      joined += part;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(Detokenizer, AnInvalidByteIsOneReplacementCharacter) {
  EXPECT_EQ(streamed(byte_ids("\xE2 ")), (Parts{"", "\uFFFD ", ""}));
  EXPECT_EQ(streamed(byte_ids("\xE2\x82 ")), (Parts{"", "", "\uFFFD ", ""}));
  EXPECT_EQ(streamed(byte_ids("\xFF"
                              "a\x80\x80")),
            (Parts{"\uFFFD", "a", "\uFFFD", "\uFFFD", ""}));
  EXPECT_EQ(streamed(byte_ids("\xE2\xE2\x9C\x85")), (Parts{"", "\uFFFD", "", "\u2705", ""}));
  EXPECT_EQ(streamed(byte_ids("\xED\xA0\x80")), (Parts{"", "\uFFFD\uFFFD", "\uFFFD", ""}));  // no surrogates
}

TEST(Detokenizer, FlushGivesWhatIsHeld) {
  EXPECT_EQ(streamed(byte_ids("a long word\xF0\x9F")).back(), "\uFFFD");
  EXPECT_EQ(streamed({}), (Parts{""}));
}

TEST(Detokenizer, SkipsSpecialTokensAndUnknownIds) {
  const Ids ids = {1, 373, 2, -1, 8192, 2147483647};
  EXPECT_EQ(bundled_tokenizer().decode(ids, true), "user");
  EXPECT_EQ(bundled_tokenizer().decode(ids, false), "<|im_start|>user<|im_end|>");
}

TEST(Detokenizer, RandomIdsJoinToTheWhole) {
  std::mt19937 random(11);
  std::vector<Tokenizer> tokenizers;
  for (const std::string& name : stored_tokenizers())
    tokenizers.push_back(parsed(*stored_tokenizer(name).find("tokenizer")));
  for (std::size_t i = 0; i < 8000; ++i) {
    const Tokenizer& tokenizer = tokenizers[i % tokenizers.size()];
    Ids ids(random() % 40);
    for (TokenId& id : ids) {
      // Every other id is one of the first, where the single bytes are.
      const auto size = static_cast<unsigned>(tokenizer.vocab_size());
      id = static_cast<TokenId>(random() % (random() % 2 == 0 ? std::min(size, 270u) : size + 5));
    }
    streamed(tokenizer, ids, random() % 2 == 0);
  }
}

TEST(Detokenizer, StartOfTheTextLosesItsBlankOnce) {
  const Tokenizer tokenizer = parsed(*stored_tokenizer("mixtral").find("tokenizer"));
  const Ids ids = tokenizer.encode(" hello  world", Specials::plain).value();
  Detokenizer detokenizer(tokenizer, true);
  std::string joined;
  for (const TokenId id : ids) joined += detokenizer.push(id);
  EXPECT_EQ(joined + detokenizer.flush(), " hello  world");
}

Parts matched(StopMatcher matcher, const Parts& input) {
  Parts parts;
  for (const std::string& text : input) parts.push_back(matcher.push(text));
  parts.push_back(matcher.flush());
  parts.push_back(matcher.stopped() ? "stopped" : "open");
  return parts;
}

TEST(StopMatcher, HoldsTheLongestEndThatBeginsAStop) {
  EXPECT_EQ(matched({{"DEFGHIJ"}, false}, {"ABC", "DEF", "G", "HI", "J", "K"}),
            (Parts{"ABC", "", "", "", "", "", "", "stopped"}));
  EXPECT_EQ(matched({{"DEFGHIJ"}, false}, {"ABCDEF", "GHX", "Y"}), (Parts{"ABC", "DEFGHX", "Y", "", "open"}));
  EXPECT_EQ(matched({{"\nUser:"}, false}, {"yes\nU", "ser: no"}), (Parts{"yes", "", "", "stopped"}));
  EXPECT_EQ(matched({{"aab"}, false}, {"aaa", "b"}), (Parts{"a", "", "", "stopped"}));  // falls back, keeps "aa"
}

TEST(StopMatcher, HoldsOnlyRealPartialMatches) {
  EXPECT_EQ(matched({{"</s>"}, false}, {"</think>", "ok"}), (Parts{"</think>", "ok", "", "open"}));
  EXPECT_EQ(matched({{"STOP"}, false}, {"hello", " S", "o"}), (Parts{"hello", " ", "So", "", "open"}));
}

TEST(StopMatcher, FlushGivesWhatIsHeld) {
  EXPECT_EQ(matched({{"STOP"}, false}, {"a STO"}), (Parts{"a ", "STO", "open"}));
}

TEST(StopMatcher, FirstCompleteStopWins) {
  EXPECT_EQ(matched({{"xyz", "b"}, false}, {"abxyz"}), (Parts{"a", "", "stopped"}));
  EXPECT_EQ(matched({{"abcd", "bc"}, false}, {"zabcd"}), (Parts{"za", "", "stopped"}));
  EXPECT_EQ(matched({{"c", "abc"}, false}, {"zabc"}), (Parts{"z", "", "stopped"}));  // both end there: the longest
  for (const Parts& cut : {Parts{"zabcd"}, Parts{"z", "a", "b", "c", "d"}, Parts{"zab", "cd"}}) {
    std::string joined;
    StopMatcher matcher({"abcd", "bc"}, false);
    for (const std::string& text : cut) joined += matcher.push(text);
    EXPECT_EQ(joined + matcher.flush(), "za");
  }
}

TEST(StopMatcher, CanIncludeTheStop) {
  EXPECT_EQ(matched({{"END"}, true}, {"a E", "ND b"}), (Parts{"a ", "END", "", "stopped"}));
}

TEST(StopMatcher, EmptyStopsNeverMatch) {
  EXPECT_EQ(matched({{"", ""}, false}, {"ab", "c"}), (Parts{"ab", "c", "", "open"}));
  EXPECT_EQ(matched({{}, false}, {"ab", ""}), (Parts{"ab", "", "", "open"}));
}

TEST(StopMatcher, AnyCutGivesWhatSearchingGives) {
  std::mt19937 random(13);
  const auto word = [&](std::size_t most) {
    std::string text;
    for (std::size_t n = 1 + random() % most; n > 0; --n) text += "ab"[random() % 2];
    return text;
  };
  for (int i = 0; i < 3000; ++i) {
    const std::string text = word(30);
    const Parts stops = {word(5), word(7)};
    std::size_t end = std::string::npos, begin = std::string::npos;
    for (const std::string& stop : stops) {
      const std::size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
        end = at + stop.size();
        begin = at;
      }
    }
    StopMatcher matcher(stops, false);
    std::string joined;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + random() % 4;
      joined += matcher.push(std::string_view(text).substr(at, n));
      at += n;
    }
    joined += matcher.flush();
    EXPECT_EQ(joined, text.substr(0, begin)) << text << " " << stops[0] << " " << stops[1];
    EXPECT_EQ(matcher.stopped(), begin != std::string::npos);
  }
}

TEST(TextStream, StopsAcrossTokens) {
  TextStream stream(bundled_tokenizer(), {.stops = {"\u9F9C!"}, .include_stop = false, .skip_special = true});
  std::string joined;
  for (const TokenId id : byte_ids("a\u9F9C?\u9F9C!b")) joined += stream.push(id);
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(joined + stream.flush(), "a\u9F9C?");
}

}  // namespace
}  // namespace colibri
