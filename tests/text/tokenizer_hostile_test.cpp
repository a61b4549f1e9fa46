// SPDX-License-Identifier: Apache-2.0
// Hostile tokenizer.json files: each is refused with exit code 65, quickly, and with a line that names the reason.
#include <chrono>

#include "text/cases.h"

namespace colibri {
namespace {

using ::testing::TestWithParam;

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

Json with_vocab(const char* vocab, const char* merges = "[]") {
  Json json = small_tokenizer();
  json.set("added_tokens", Json::Array{});
  json.find("model")->set("vocab", *parse_json(vocab));
  json.find("model")->set("merges", *parse_json(merges));
  return json;
}

Json with_added(const char* tokens) {
  Json json = small_tokenizer();
  json.set("added_tokens", *parse_json(tokens));
  return json;
}

Json with_part(const char* key, const std::string& part) {
  Json json = small_tokenizer();
  json.set(key, *parse_json(part));
  return json;
}

TEST(HostileTokenizer, NotATokenizer) {
  EXPECT_SAYS(refusal_of_text(""), "JSON");
  EXPECT_SAYS(refusal_of_text("{\"model\": "), "JSON");
  EXPECT_SAYS(refusal_of_text("\xFF\xFE"), "JSON");
  EXPECT_SAYS(refusal_of_text("[]"), "must be a JSON object");
  EXPECT_SAYS(refusal_of_text("{}"), "no \"model\" object");
  EXPECT_SAYS(refusal_of_text(R"({"model": []})"), "no \"model\" object");
  EXPECT_SAYS(refusal_of_text(R"({"model": {}})"), "model: vocab: must be an object");
  EXPECT_SAYS(refusal_of_text(std::string(100'000, '[')), "nested too deep");
}

TEST(HostileTokenizer, OtherModelTypesAreNamed) {
  for (const char* type : {"Unigram", "WordPiece", "WordLevel", "Wonder\\nful"}) {
    const std::string json = std::string(R"({"model": {"type": ")") + type + R"(", "vocab": [["a", 0.5]]}})";
    EXPECT_SAYS(refusal_of_text(json), std::string("model: type \"") + type + "\" is not supported: Colibri reads BPE");
  }
  EXPECT_SAYS(refusal_of_text(R"({"model": {"type": 5}})"), "model: type");
}

TEST(HostileTokenizer, VocabularyIds) {
  EXPECT_SAYS(refusal(with_vocab(R"({"a": 0, "b": 1, "c": 1})")), "tokens \"b\" and \"c\" both have id 1");
  EXPECT_SAYS(refusal(with_vocab(R"({"a": 0, "b": 2})")), "no token has id 1");
  EXPECT_SAYS(refusal(with_vocab(R"({"a": 0, "b": 2147483648})")),
              "token \"b\": id 2147483648 is not from 0 to 1048575");
  EXPECT_SAYS(refusal(with_vocab(R"({"a": 0, "b": 18446744073709551616})")), "token \"b\": id 18446744073709551616");
  EXPECT_SAYS(refusal(with_vocab(R"({"a": -1})")), "token \"a\": id -1 is not");
  EXPECT_SAYS(refusal(with_vocab(R"({"a": 0.5})")), "token \"a\": id 0.5 is not");
  EXPECT_SAYS(refusal(with_vocab(R"({"a": "0"})")), "token \"a\": id \"0\" is not");
  EXPECT_SAYS(refusal(with_vocab("{}")), "vocab: is empty");
  EXPECT_SAYS(refusal(with_vocab("[]")), "vocab: must be an object");
  EXPECT_SAYS(refusal_of_text(R"({"model": {"vocab": {"a": 0, "a": 1}}})"), "duplicate key \"a\"");
}

TEST(HostileTokenizer, Merges) {
  constexpr const char* kVocab = R"({"a": 0, "b": 1, "ab": 2})";
  EXPECT_EQ(refusal(with_vocab(kVocab, R"(["a b"])")), "(accepted)");
  EXPECT_SAYS(refusal(with_vocab(kVocab, R"(["a b", "a x"])")), "merges: merge 1: \"x\" is not in the vocabulary");
  EXPECT_SAYS(refusal(with_vocab(kVocab, R"([["x", "b"]])")), "merges: merge 0: \"x\" is not in the vocabulary");
  EXPECT_SAYS(refusal(with_vocab(kVocab, R"(["ab ab"])")), "merge 0: \"abab\" is not in the vocabulary");
  for (const char* merges :
       {R"(["ab"])", R"(["a b c"])", R"([5])", R"([["a"]])", R"([["a", 5]])", R"([["a", "b", "c"]])"})
    EXPECT_SAYS(refusal(with_vocab(kVocab, merges)), "merges: merge 0: must be \"a b\" or [\"a\", \"b\"]");
  EXPECT_SAYS(refusal(with_vocab(kVocab, R"({"a": "b"})")), "\"merges\" must be an array");
  Json no_merges = with_vocab(kVocab, "null");
  EXPECT_SAYS(refusal(no_merges), "\"merges\" must be an array");
}

TEST(HostileTokenizer, TenMillionMerges) {
  std::string json = R"({"model": {"vocab": {"a": 0}, "merges": [)";
  json += "\"\"";
  json.reserve(40'000'000);
  for (int i = 1; i < 10'000'000; ++i) json += ",\"\"";
  json += "]}}";
  EXPECT_SAYS(refusal_of_text(json), "more values than the limit allows");
}

TEST(HostileTokenizer, Tokens) {
  EXPECT_SAYS(refusal(with_vocab(R"({"a": 0, "": 1})")), "vocab: an empty token");
  EXPECT_SAYS(refusal(with_added(R"([{"id": 5, "content": ""}])")), "added_tokens: an empty token");
  const std::string large(100'000'000, 'x');
  EXPECT_SAYS(refusal_of_text(R"({"model": {"vocab": {")" + large + R"(": 0}, "merges": []}})"),
              "has 100000000 bytes; at most 4096");
  EXPECT_SAYS(refusal(with_added((R"([{"id": 5, "content": ")" + large.substr(0, 5000) + "\"}]").c_str())),
              "has 5000 bytes; at most 4096");
}

TEST(HostileTokenizer, AddedTokenIds) {
  EXPECT_SAYS(refusal(with_added(R"([{"id": 70000, "content": "<x>"}])")),
              "added_tokens: \"<x>\": id 70000 is beyond the vocabulary of 5 ids");
  EXPECT_SAYS(refusal(with_added(R"([{"id": -1, "content": "<x>"}])")),
              "token \"<x>\": \"id\" must be an integer from 0");
  EXPECT_SAYS(refusal(with_added(R"([{"id": 4294967296, "content": "<x>"}])")), "\"id\" must be an integer from 0");
  EXPECT_SAYS(refusal(with_added(R"([{"content": "<x>"}])")), "\"id\" must be an integer from 0");
  EXPECT_SAYS(refusal(with_added(R"([{"id": 5, "content": "<x>"}, {"id": 5, "content": "<y>"}])")),
              "\"<x>\" and \"<y>\" both have id 5");
  EXPECT_SAYS(refusal(with_added(R"([{"id": 5, "content": "<x>"}, {"id": 6, "content": "<x>"}])")),
              "\"<x>\" is there twice");
  EXPECT_SAYS(refusal(with_added(R"([{"id": 0, "content": "<x>"}])")), "id 0 is \"a\" in the vocabulary");
  EXPECT_SAYS(refusal(with_added(R"([{"id": 5, "content": "a"}])")), "id 5, but 0 in the vocabulary");
  EXPECT_SAYS(refusal(with_added(R"([{"id": 5, "content": "<x>", "special": "yes"}])")),
              "\"special\" must be true or false");
  EXPECT_SAYS(refusal(with_added("[7]")), "added_tokens: \"content\" must be a string");
  EXPECT_SAYS(refusal(with_added("{}")), "\"added_tokens\" must be an array");
}

TEST(HostileTokenizer, ByteTokens) {
  for (const char* token : {"<0x-1>", "<0xG0>", "<0x 1>", "<0x+1>"}) {
    Json json = with_vocab((std::string(R"({"a": 0, ")") + token + "\": 1}").c_str());
    json.find("model")->set("byte_fallback", true);
    EXPECT_SAYS(refusal(json), std::string("byte token \"") + token + "\" is not from <0x00> to <0xFF>");
  }
  Json json = small_tokenizer();
  json.find("model")->set("unk_token", "<unk>");
  EXPECT_SAYS(refusal(json), "unk_token \"<unk>\" is not in the vocabulary");
}

std::string split(const std::string& pattern) {
  return R"({"type": "Split", "behavior": "Isolated", "pattern": {"Regex": )" + write_json(Json(pattern)) + "}}";
}

TEST(HostileTokenizer, BadPatterns) {
  for (const char* pattern : {"(", "[a", "a**+?{", "\\p{Nope}", "(?<n", "\\u12", "[[:alpha:"})
    EXPECT_SAYS(refusal(with_part("pre_tokenizer", split(pattern))), "pre_tokenizer: regular expression");
  EXPECT_SAYS(refusal(with_part("pre_tokenizer", split(std::string(70'000, 'a')))), "of 70000 bytes; at most 65536");
  EXPECT_SAYS(refusal(with_part("pre_tokenizer", split("(a{1000}){1000}{1000}"))), "regular expression");
  EXPECT_SAYS(refusal(with_part("pre_tokenizer", split(std::string(5000, '(')))), "nested");
}

TEST(HostileTokenizer, ExponentialPatterns) {
  for (const char* pattern :
       {"(a+)+b", "(a|a)*$", "(?:\\p{L}+)*\\d", "(\\s*)*x", "(a|aa)+\\z", "(?:.*a){20}!", "(x+x+)+y"}) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_SAYS(refusal(with_part("pre_tokenizer", split(pattern))), "matching stopped");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << pattern;
  }
}

TEST(HostileTokenizer, PatternThatExplodesLaterFailsTheText) {
  const auto tokenizer = Tokenizer::parse(write_json(with_part("pre_tokenizer", split("(?:(?:qz)+)+!"))));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "qz";
  const auto ids = tokenizer->encode(text + " !", Specials::plain);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, Exit::data);
  EXPECT_SAYS(ids.error().message, "pre_tokenizer: matching stopped");
}

TEST(HostileTokenizer, UnsupportedPartsAreNamed) {
  for (const char* key : {"normalizer", "pre_tokenizer", "decoder", "post_processor"}) {
    EXPECT_SAYS(refusal(with_part(key, R"({"type": "Magic"})")),
                std::string(key) + ": type \"Magic\" is not supported");
    EXPECT_SAYS(refusal(with_part(key, "{}")), std::string(key) + ": \"type\" must be a string");
    EXPECT_SAYS(refusal(with_part(key, "7")), std::string(key) + ": \"type\" must be a string");
    EXPECT_SAYS(refusal(with_part(key, R"({"type": "Sequence"})")), "must be an array");
  }
  std::string many = R"({"type": "Sequence", "normalizers": [{"type": "NFC"})";
  for (int i = 0; i < 100; ++i) many += R"(,{"type": "NFC"})";
  EXPECT_SAYS(refusal(with_part("normalizer", many + "]}")), "more than 64 steps");
  EXPECT_SAYS(refusal(with_part("decoder", R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                                              {"type": "Strip", "content": " ", "start": 0, "stop": 1}]})")),
              "not supported");
  EXPECT_SAYS(refusal(with_part("post_processor", R"({"type": "TemplateProcessing", "special_tokens": {"<s>":
                                {"ids": [99]}}, "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]})")),
              "an id that no token has");
}

TEST(HostileTokenizer, ReplacementsCannotBlowUp) {
  std::string chain = R"({"type": "Sequence", "normalizers": [)";
  for (int i = 0; i < 20; ++i)
    chain += (i > 0 ? "," : "") +
             (R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" + std::string(1000, 'a') + "\"}");
  const auto tokenizer = Tokenizer::parse(write_json(with_part("normalizer", chain + "]}")));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto ids = tokenizer->encode(std::string(1000, 'a'), Specials::plain);
  ASSERT_FALSE(ids.ok());
  EXPECT_SAYS(ids.error().message, "normalizer: a replacement makes the text more than 32 times as long");
}

}  // namespace
}  // namespace colibri
