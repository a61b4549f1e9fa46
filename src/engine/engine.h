// SPDX-License-Identifier: Apache-2.0
// The engine: requests in through a lock-free ring, tokens out through their sinks, one step at a time.
//
// A step is admit, plan, reserve, forward, sample, commit, publish. Invariant: one thread calls step() and owns all
// sequences and KV blocks; nothing of a step is visible outside before it is committed; a request that was admitted
// holds the blocks of its whole length, so no step can run out of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <stop_token>
#include <vector>

#include "backend/backend.h"
#include "base/doorbell.h"
#include "base/ring.h"
#include "engine/request.h"
#include "forward/forward.h"
#include "kv/pool.h"
#include "model/model.h"

namespace colibri {

struct EngineOptions {
  int context = 0;      // 0: the model's
  int max_batch = 1;    // sequences that run at once
  int max_chunk = 512;  // prompt rows of one step
  int queue = 1024;     // requests that wait in the ring
};

/// Counters that any thread may read.
struct EngineStats {
  std::atomic<std::uint64_t> steps{0};
  std::atomic<std::uint64_t> prompt_tokens{0};
  std::atomic<std::uint64_t> generated_tokens{0};
  std::atomic<int> running{0};
  std::atomic<int> waiting{0};
  std::atomic<int> kv_free{0};  // blocks and slots of all layer groups
};

/// Time from the hidden states to the chosen experts, summed over the MoE layers of a step: of the largest step so far.
struct DispatchLatency {
  double seconds = 0.0;
  int tokens = 0;
};

class Engine {
 public:
  /// `model` and `backend` outlive the engine. All memory that steps need is allocated here.
  static Result<std::unique_ptr<Engine>> create(const Model& model, Backend& backend, const EngineOptions& options);
  ~Engine();

  /// Most tokens that an answer to a prompt of this length can have; 0: the prompt itself is too long. A prompt that
  /// fills the context gets one token, since the last one of an answer is never fed back.
  int room(std::size_t prompt_tokens) const;

  /// Why this request could never run, naming the field.
  Status check(const Request& request) const;

  /// Any thread; the request has passed check(). False, and the request untouched, where the queue is full or the
  /// engine has stopped.
  bool submit(Request& request);

  /// One step; false where there was nothing to do.
  bool step();

  /// Steps until stopped, sleeping while there is nothing to do. What still runs then is cancelled.
  void run(const std::stop_token& stop);

  /// Ends a sleep in run().
  void wake();

  int context() const { return options_.context; }
  const EngineStats& stats() const { return stats_; }
  /// To be read between steps.
  const DispatchLatency& dispatch_latency() const { return dispatch_; }
  /// Distinct (layer, expert) pairs that the last step read.
  std::int64_t experts_touched() const { return counters_.experts_touched; }
  /// Memory of cache, activations and logits.
  std::size_t bytes() const { return pool_.bytes() + scratch_.memory.size() + logits_.size(); }
  const KvPool& pool() const { return pool_; }

 private:
  struct Sequence;
  struct Sampled;

  Engine(const Model& model, Backend& backend, const EngineOptions& options, KvPool pool, Scratch scratch,
         Buffer logits);
  void take_in();
  void admit();
  void publish_counters();
  void drop_cancelled();
  void finish(std::size_t index, TokenEvent event);

  const Model& model_;
  Backend& backend_;
  const EngineOptions options_;
  KvPool pool_;
  Scratch scratch_;
  Buffer logits_;  // [max_batch, vocab]
  Ring<std::unique_ptr<Request>> ring_;
  std::deque<std::unique_ptr<Request>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission
  EngineStats stats_;
  StepCounters counters_;  // of the last step
  DispatchLatency dispatch_;
  Doorbell<> bell_;
};

}  // namespace colibri
