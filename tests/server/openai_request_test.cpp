// SPDX-License-Identifier: Apache-2.0
// Bodies of chat completions: what each field takes, and which field an error names.
#include "server/openai_request.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

constexpr const char* kMessages = R"("messages":[{"role":"user","content":"hi"}])";

struct Outcome {
  ChatCall call;
  std::optional<ApiError> error;
  std::vector<std::string> unknown;
};

Outcome parse_body(const std::string& body) {
  Outcome outcome;
  outcome.error = parse_chat_call(body, outcome.call, outcome.unknown);
  return outcome;
}

Outcome parse_fields(const std::string& fields) {
  return parse_body(std::string("{\"model\":\"m\",") + kMessages + (fields.empty() ? "" : ",") + fields + "}");
}

TEST(ChatCall, Defaults) {
  const Outcome plain = parse_fields("");
  ASSERT_FALSE(plain.error.has_value()) << plain.error->message;
  EXPECT_EQ(plain.call.model, "m");
  EXPECT_EQ(plain.call.n, 1);
  EXPECT_EQ(plain.call.top_logprobs, -1);
  EXPECT_FALSE(plain.call.stream);
  EXPECT_FALSE(plain.call.max_tokens.has_value());
  EXPECT_FALSE(plain.call.sampling.temperature.has_value());
  EXPECT_TRUE(plain.call.tools.is_null());
}

TEST(ChatCall, TakesWhatIsInRange) {
  const Outcome full = parse_fields(
      R"("temperature":0,"top_p":1,"top_k":-1,"min_p":0.5,"presence_penalty":-2,"frequency_penalty":2,)"
      R"("repetition_penalty":1.1,"seed":-1,"stop":["a","b"],"max_tokens":5,"max_completion_tokens":7,"stream":true,)"
      R"("stream_options":{"include_usage":true,"continuous_usage_stats":true},"n":8,"logprobs":true,)"
      R"("top_logprobs":20,"ignore_eos":true,"parallel_tool_calls":false,"tool_choice":"auto",)"
      R"("chat_template_kwargs":{"enable_thinking":false},"response_format":{"type":"text"},"logit_bias":{"5":-100,"7":0.5},)"
      R"("min_tokens":3,"stop_token_ids":[9,11],)"
      R"("user":"somebody","add_generation_prompt":true,"zzz":[1],"tools":[{"type":"function","function":{"name":"f"}}])");
  ASSERT_FALSE(full.error.has_value()) << full.error->message;
  EXPECT_EQ(full.call.sampling.temperature, 0.0F);
  EXPECT_EQ(full.call.sampling.top_k, 0);
  EXPECT_EQ(full.call.sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(full.call.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(full.call.max_tokens, 7);
  EXPECT_EQ(full.call.min_tokens, 3);
  EXPECT_EQ(full.call.stop_ids, (std::vector<std::int32_t>{9, 11}));
  ASSERT_EQ(full.call.sampling.logit_bias.size(), 2U);
  EXPECT_EQ(full.call.sampling.logit_bias[1].id, 7);
  EXPECT_EQ(full.call.sampling.logit_bias[1].bias, 0.5F);
  EXPECT_EQ(full.call.n, 8);
  EXPECT_EQ(full.call.top_logprobs, 20);
  EXPECT_TRUE(full.call.ignore_eos && full.call.stream && full.call.include_usage && full.call.continuous_usage);
  EXPECT_FALSE(full.call.parallel_tool_calls);
  EXPECT_EQ(full.call.tools.as_array().size(), 1U);
  EXPECT_EQ(full.unknown, std::vector<std::string>{"zzz"});
}

TEST(ChatCall, NullIsAbsent) {
  const Outcome nulls = parse_fields(
      R"("temperature":null,"n":null,"stop":null,"max_tokens":null,"stream":null,"stream_options":null,"tools":null,)"
      R"("tool_choice":null,"response_format":null,"logit_bias":null,"logprobs":null,"top_logprobs":null,"seed":null)");
  EXPECT_FALSE(nulls.error.has_value()) << nulls.error->message;
  EXPECT_TRUE(nulls.unknown.empty());
}

TEST(ChatCall, NoneHidesTheTools) {
  const Outcome none = parse_fields(R"("tool_choice":"none","tools":[{"type":"function","function":{"name":"f"}}])");
  ASSERT_FALSE(none.error.has_value());
  EXPECT_TRUE(none.call.tools.is_null());
}

TEST(ChatCall, RefusedFields) {
  const std::string tool_128 = [] {
    std::string list = "\"tools\":[";
    for (int i = 0; i < 129; ++i) list += std::string(i ? "," : "") + R"({"type":"function","function":{"name":"f"}})";
    return list + "]";
  }();
  const std::string long_text(257, 'x');
  const std::pair<std::string, const char*> cases[] = {
      {R"("temperature":-1)", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":"1")", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_p":1.1)", "top_p"},
      {R"("top_k":-5)", "top_k"},
      {R"("top_k":2147483648)", "top_k"},
      {R"("top_k":1.0)", "top_k"},
      {R"("min_p":-0.1)", "min_p"},
      {R"("presence_penalty":1e38)", "presence_penalty"},
      {R"("frequency_penalty":-2.5)", "frequency_penalty"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("seed":9223372036854775808)", "seed"},
      {R"("seed":"5")", "seed"},
      {R"("n":0)", "n"},
      {R"("n":-1)", "n"},
      {R"("n":9)", "n"},
      {R"("n":1000000000)", "n"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("max_tokens":2147483648)", "max_tokens"},
      {R"("max_completion_tokens":1.0)", "max_completion_tokens"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",""])", "stop"},
      {R"("stop":["a","b","c","d","e"])", "stop"},
      {R"("stop":[1])", "stop"},
      {"\"stop\":\"" + long_text + "\"", "stop"},
      {R"("top_logprobs":21,"logprobs":true)", "top_logprobs"},
      {R"("top_logprobs":-1,"logprobs":true)", "top_logprobs"},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("logprobs":5)", "logprobs"},
      {R"("stream":"true")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
      {R"("tool_choice":"any")", "tool_choice"},
      {R"("tools":{})", "tools"},
      {R"("tools":[{"type":5}])", "tools[0].type"},
      {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"f","parameters":[]}}])", "tools[0].function.parameters"},
      {tool_128, "tools"},
      {R"("chat_template":"x")", "chat_template"},
      {R"("chat_template_kwargs":{"tokenize":true})", "chat_template_kwargs.tokenize"},
      {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs.messages"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("response_format":{})", "response_format.type"},
      {R"("logit_bias":{"5":101})", "logit_bias"},
      {R"("logit_bias":{"5":"1"})", "logit_bias"},
      {R"("logit_bias":{"-5":1})", "logit_bias"},
      {R"("logit_bias":{"5x":1})", "logit_bias"},
      {R"("logit_bias":{"99999999999":1})", "logit_bias"},
      {R"("logit_bias":[])", "logit_bias"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("stop_token_ids":[1.5])", "stop_token_ids"},
      {R"("stop_token_ids":[-1])", "stop_token_ids"},
      {R"("stop_token_ids":7)", "stop_token_ids"},
      {R"("add_generation_prompt":false)", "add_generation_prompt"},
      {R"("continue_final_message":true)", "continue_final_message"},
      {R"("guided_json":{"a":1})", "guided_json"},
      {"\"user\":\"" + long_text + "\"", "user"},
      {R"("cache_salt":"a\nb")", "cache_salt"},
  };
  for (const auto& [fields, param] : cases) {
    const Outcome outcome = parse_fields(fields);
    ASSERT_TRUE(outcome.error.has_value()) << fields;
    EXPECT_EQ(outcome.error->status, 400) << fields;
    EXPECT_EQ(outcome.error->param, param) << fields;
    EXPECT_LT(outcome.error->message.size(), 300U);
  }
}

TEST(ChatCall, Messages) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([{"role":"user","content":[{"type":"text","text":"a"}]}])", ""},
      {R"([{"role":"developer","content":"a"},{"role":"user","content":"\u0000"}])", ""},
      {R"([{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",)"
       R"("function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"r"}])",
       ""},
      {R"([])", "messages"},
      {R"({})", "messages"},
      {R"(["x"])", "messages[0]"},
      {R"([{"content":"a"}])", "messages[0].role"},
      {R"([{"role":"user","content":"a"},{"role":"robot","content":"a"}])", "messages[1].role"},
      {R"([{"role":7,"content":"a"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":5}])", "messages[0].content"},
      {R"([{"role":"user","content":[{"type":"image_url"}]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"([{"role":"assistant","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":"a","tool_calls":[{}]}])", "messages[0].tool_calls"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":5}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
  };
  for (const auto& [messages, param] : cases) {
    const Outcome outcome = parse_body(std::string("{\"messages\":") + messages + "}");
    EXPECT_EQ(outcome.error ? outcome.error->param : "", param) << messages;
  }
  EXPECT_EQ(parse_body("{}").error->param, "messages");
}

TEST(ChatCall, BodiesThatAreNoJson) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "invalid_json"},
      {"[1]", "invalid_json"},
      {"{\"a\":1}x", "invalid_json"},
      {"{\"a\":NaN}", "invalid_json"},
      {"{\"n\":1e400}", "invalid_json"},
      {"{\"n\":1,\"n\":2}", "invalid_json"},
      {std::string(100'000, '['), "json_too_deep"},
      {"{\"a\":\"\xff\"}", "invalid_utf8"},
      {"{\"a\":\"\xc0\xaf\"}", "invalid_utf8"},
      {"{\"a\":\"\\ud800\"}", "invalid_utf8"},
  };
  for (const auto& [body, code] : cases) {
    const Outcome outcome = parse_body(body);
    ASSERT_TRUE(outcome.error.has_value()) << body.substr(0, 40);
    EXPECT_EQ(outcome.error->code, code) << body.substr(0, 40) << ": " << outcome.error->message;
    EXPECT_EQ(outcome.error->status, 400);
  }
}

}  // namespace
}  // namespace colibri
