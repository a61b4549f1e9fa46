// SPDX-License-Identifier: Apache-2.0
// The service over loopback with the bundled model and its engine: answers, refusals, cancelling, overload, drain.
// Texts and log probabilities are compared with stored ones in tests/e2e.
#include "server/service.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "backend/backend.h"
#include "loopback.h"

namespace colibri {
namespace {

using namespace std::chrono_literals;

/// The model is loaded once for all tests.
const LoadedModel& tiny() {
  static const LoadedModel model = [] {
    auto loaded = LoadedModel::load(COLIBRI_SOURCE_DIR "/models/colibri-tiny", 0, true);
    CHECK(loaded.ok());
    return std::move(*loaded);
  }();
  return model;
}

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < kPatienceMs; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

struct Reply {
  int status = 0;
  std::string head;
  Json body;
  std::vector<std::string> events;  // of a stream
};

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { start({.context = 256, .max_batch = 2}); }
  void TearDown() override {
    server_.reset();
    runner_ = {};
  }

  void start(const EngineOptions& options) {
    server_.reset();
    runner_ = {};
    service_ = std::make_unique<Service>("1.2.3");
    auto backend = make_backend("cpu", 1);
    ASSERT_TRUE(backend.ok());
    backend_ = std::move(*backend);
    auto engine = Engine::create(tiny().model, *backend_, options);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    engine_ = std::move(*engine);
    auto server = HttpServer::start({.port = 0, .io_threads = 2}, service_->routes());
    ASSERT_TRUE(server.ok());
    server_ = std::move(*server);
  }
  void open() {
    service_->open({{"tiny", &tiny(), engine_.get()}});
    runner_ = std::jthread([engine = engine_.get()](const std::stop_token& stop) { engine->run(stop); });
  }

  static std::string bytes(const std::string& method, const std::string& path, const std::string& body) {
    return method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n" +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  /// Greedy where `fields` does not say a temperature.
  static std::string chat(const std::string& fields = "") {
    return R"({"model":"tiny","messages":[{"role":"user","content":"What is 80 plus 78?"}])" +
           std::string(fields.find("temperature") == std::string::npos ? R"(,"temperature":0)" : "") +
           (fields.empty() ? "" : "," + fields) + "}";
  }
  Reply call(const std::string& method, const std::string& path, const std::string& body = "") const {
    Client client(server_->port());
    client.send(bytes(method, path, body));
    return parse(client.read_to_end());
  }
  Reply post(const std::string& body) const { return call("POST", "/v1/chat/completions", body); }

  static Reply parse(const std::string& text) {
    Reply reply;
    const std::size_t end = text.find("\r\n\r\n");
    if (end == std::string::npos) return reply;
    reply.head = text.substr(0, end);
    reply.status = std::atoi(text.c_str() + 9);
    if (reply.head.find("text/event-stream") == std::string::npos) {
      auto body = parse_json(text.substr(end + 4));
      if (body.ok()) reply.body = std::move(*body);
    }
    for (std::size_t at = text.find("data: ", end); at != std::string::npos; at = text.find("data: ", at + 1))
      reply.events.push_back(text.substr(at + 6, text.find("\n\n", at) - at - 6));
    return reply;
  }
  static std::string code(const Reply& reply) {
    const Json* error = reply.body.find("error");
    return error == nullptr ? "" : error->find("code")->as_string();
  }
  std::int64_t health(const char* key) const { return call("GET", "/health").body.find(key)->as_int(); }

  std::unique_ptr<Service> service_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Engine> engine_;
  std::jthread runner_;
  std::unique_ptr<HttpServer> server_;
};

const Json& choice(const Reply& reply, std::size_t index = 0) {
  return reply.body.find("choices")->as_array().at(index);
}

TEST_F(ServiceTest, NotReadyBeforeTheModelIs) {
  EXPECT_EQ(call("GET", "/health").status, 503);
  EXPECT_EQ(call("GET", "/livez").status, 200);
  const Reply early = post(chat());
  EXPECT_EQ(early.status, 503);
  EXPECT_EQ(code(early), "loading");
  open();
  EXPECT_EQ(call("GET", "/health").status, 200);
  EXPECT_EQ(*call("GET", "/health").body.find("state"), Json("ready"));
}

TEST_F(ServiceTest, ModelsAndVersion) {
  open();
  EXPECT_EQ(*call("GET", "/version").body.find("version"), Json("1.2.3"));
  const Reply list = call("GET", "/v1/models");
  ASSERT_EQ(list.status, 200);
  EXPECT_EQ(*list.body.find("data")->as_array().at(0).find("id"), Json("tiny"));
  EXPECT_EQ(*call("GET", "/v1/models/tiny").body.find("object"), Json("model"));
  EXPECT_EQ(code(call("GET", "/v1/models/other")), "model_not_found");
}

TEST_F(ServiceTest, WholeAnswer) {
  open();
  const Reply reply = post(chat());
  ASSERT_EQ(reply.status, 200) << reply.head;
  EXPECT_TRUE(reply.body.find("id")->as_string().starts_with("chatcmpl-"));
  EXPECT_EQ(*reply.body.find("object"), Json("chat.completion"));
  EXPECT_EQ(*reply.body.find("model"), Json("tiny"));
  EXPECT_TRUE(reply.body.find("system_fingerprint")->is_null());
  EXPECT_EQ(*choice(reply).find("finish_reason"), Json("stop"));
  EXPECT_EQ(*choice(reply).find("message")->find("role"), Json("assistant"));
  EXPECT_EQ(choice(reply).find("message")->find("tool_calls"), nullptr);
  EXPECT_TRUE(choice(reply).find("logprobs")->is_null());
  const Json& usage = *reply.body.find("usage");
  EXPECT_EQ(usage.find("total_tokens")->as_int(),
            usage.find("prompt_tokens")->as_int() + usage.find("completion_tokens")->as_int());
  EXPECT_EQ(*usage.find("prompt_tokens_details")->find("cached_tokens"), Json(0));
}

TEST_F(ServiceTest, StreamEqualsWhole) {
  open();
  const std::string text = choice(post(chat())).find("message")->find("content")->as_string();
  ASSERT_FALSE(text.empty());
  const Reply stream = post(chat(R"("stream":true,"stream_options":{"include_usage":true})"));
  ASSERT_EQ(stream.status, 200);
  ASSERT_GE(stream.events.size(), 4U);
  EXPECT_EQ(stream.events.back(), "[DONE]");
  std::string joined;
  Json id;
  for (std::size_t i = 0; i + 1 < stream.events.size(); ++i) {
    const auto chunk = parse_json(stream.events[i]);
    ASSERT_TRUE(chunk.ok()) << stream.events[i];
    if (i == 0) id = *chunk->find("id");
    EXPECT_EQ(*chunk->find("id"), id);
    EXPECT_EQ(*chunk->find("object"), Json("chat.completion.chunk"));
    const Json::Array& choices = chunk->find("choices")->as_array();
    if (i + 2 == stream.events.size()) {
      EXPECT_TRUE(choices.empty());
      EXPECT_GT(chunk->find("usage")->find("completion_tokens")->as_int(), 0);
      continue;
    }
    EXPECT_TRUE(chunk->find("usage")->is_null());
    const Json& delta = *choices.at(0).find("delta");
    EXPECT_EQ(delta.find("role") != nullptr, i == 0);
    const bool last = i + 3 == stream.events.size();
    EXPECT_EQ(choices.at(0).find("finish_reason")->is_null(), !last);
    EXPECT_EQ(delta.as_object().empty(), last);
    if (const Json* content = delta.find("content")) {
      EXPECT_FALSE(content->as_string().empty());
      joined += content->as_string();
    }
  }
  EXPECT_EQ(joined, text);
}

TEST_F(ServiceTest, ChoicesLengthStopAndLogprobs) {
  open();
  const Reply several =
      post(chat(R"("n":3,"max_tokens":4,"temperature":1,"seed":7,"ignore_eos":true,"logprobs":true,"top_logprobs":2)"));
  ASSERT_EQ(several.status, 200) << write_json(several.body);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*choice(several, i).find("index"), Json(i));
    EXPECT_EQ(*choice(several, i).find("finish_reason"), Json("length"));
    const Json::Array& tokens = choice(several, i).find("logprobs")->find("content")->as_array();
    ASSERT_EQ(tokens.size(), 4U);
    for (const Json& token : tokens) {
      EXPECT_LE(token.find("logprob")->as_double(), 0.0);
      EXPECT_EQ(token.find("top_logprobs")->as_array().size(), 2U);
    }
  }
  EXPECT_EQ(*several.body.find("usage")->find("completion_tokens"), Json(12));

  const std::string text = choice(post(chat())).find("message")->find("content")->as_string();
  const std::string stop = text.substr(text.size() / 2, 3);
  const Reply cut = post(chat("\"stop\":" + write_json(stop)));
  EXPECT_EQ(*choice(cut).find("message")->find("content"), Json(text.substr(0, text.find(stop))));
  EXPECT_EQ(*choice(cut).find("stop_reason"), Json(stop));
  EXPECT_EQ(*choice(cut).find("finish_reason"), Json("stop"));
}

TEST_F(ServiceTest, Refusals) {
  open();
  EXPECT_EQ(code(post("{")), "invalid_json");
  EXPECT_EQ(code(post(R"({"model":"other","messages":[{"role":"user","content":"x"}]})")), "model_not_found");
  EXPECT_EQ(code(post(chat(R"("max_tokens":256)"))), "context_length_exceeded");
  std::string words;
  for (int i = 0; i < 300; ++i) words += "word ";
  EXPECT_EQ(code(post(R"({"messages":[{"role":"user","content":")" + words + "\"}]}")), "context_length_exceeded");
  EXPECT_EQ(post(R"({"messages":[{"role":"user","content":"x"}],"max_tokens":1})").status, 200)
      << "one model: no name needed";
  EXPECT_EQ(call("GET", "/v1/chat/completions").status, 405);
}

TEST_F(ServiceTest, LeavingCancels) {
  start({.context = 4096, .max_batch = 2});
  open();
  for (const char* stream : {"true", "false"}) {
    Client client(server_->port());
    client.send(bytes("POST", "/v1/chat/completions",
                      chat(std::string(R"("ignore_eos":true,"max_tokens":4000,"n":2,"stream":)") + stream)));
    ASSERT_TRUE(eventually([&] { return engine_->stats().running == 2; }));
    client.leave();
    EXPECT_TRUE(eventually([&] { return engine_->stats().running == 0; })) << stream;
  }
  EXPECT_EQ(health("running"), 0);
  EXPECT_EQ(health("waiting"), 0);
}

TEST_F(ServiceTest, FullQueueSaysSo) {
  start({.context = 256, .max_batch = 2, .queue = 2});
  service_->open({{"tiny", &tiny(), engine_.get()}});  // no engine thread: nothing leaves the ring
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(std::make_unique<Client>(server_->port()));
    clients.back()->send(bytes("POST", "/v1/chat/completions", chat()));
    ASSERT_TRUE(eventually([&] { return engine_->stats().waiting == i + 1; }));
  }
  const Reply refused = post(chat());
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(code(refused), "overloaded");
  EXPECT_NE(refused.head.find("Retry-After: "), std::string::npos);
  runner_ = std::jthread([engine = engine_.get()](const std::stop_token& stop) { engine->run(stop); });
  for (const auto& client : clients) EXPECT_EQ(parse(client->read_to_end()).status, 200);
}

TEST_F(ServiceTest, DrainFinishesWhatRuns) {
  start({.context = 4096, .max_batch = 2});
  open();
  Client running(server_->port());
  running.send(bytes("POST", "/v1/chat/completions", chat(R"("ignore_eos":true,"max_tokens":100)")));
  ASSERT_TRUE(eventually([&] { return engine_->stats().running == 1; }));
  service_->drain();
  server_->drain();
  EXPECT_EQ(code(post(chat())), "draining");
  EXPECT_EQ(call("GET", "/health").status, 503);
  EXPECT_EQ(call("GET", "/livez").status, 200);
  EXPECT_EQ(parse(running.read_to_end()).status, 200);
}

TEST_F(ServiceTest, EndOfTheServerEndsStreams) {
  start({.context = 4096, .max_batch = 2});
  open();
  Client client(server_->port());
  client.send(bytes("POST", "/v1/chat/completions", chat(R"("ignore_eos":true,"max_tokens":4000,"stream":true)")));
  client.read_until("\"content\"");
  server_.reset();
  const Reply cut = parse(client.read_to_end());
  EXPECT_NE(cut.events.back().find("shutting_down"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return engine_->stats().running == 0; }));
}

}  // namespace
}  // namespace colibri
