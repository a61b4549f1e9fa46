// SPDX-License-Identifier: Apache-2.0
// Errors as values, for everything that somebody can act on: a file, a flag, a request, memory at load.
// Invariant: an Error's message is one line, says what to do next where it can, and each layer prepends its place.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace colibri {

/// Process exit codes (sysexits where they fit); docs/OPERATIONS.md lists when each is used.
enum class Exit : int {
  ok = 0,
  usage = 64,        // unknown flag or subcommand, missing argument
  data = 65,         // something inside the model, the template or the request is wrong
  not_found = 66,    // no such path, or no config.json in it
  unavailable = 69,  // a device that is not there, or not enough of it
  internal = 70,     // broken promise of our own, or a dead thread
  os = 71,           // the system refused: port in use, descriptors
  io = 74,           // I/O error
  gpu_restart = 75,  // GPU fault that a restart cures
  config = 78,       // configuration or budget that cannot hold
  gpu_service = 86,  // GPU needs service: do not restart
};

struct Error {
  Exit code = Exit::data;
  std::string message;

  /// Prepends the place: "model.safetensors: header: ...".
  Error at(std::string_view place) && {
    message.insert(0, std::string(place) + ": ");
    return std::move(*this);
  }
};

inline Error data_error(std::string message) { return {Exit::data, std::move(message)}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    CHECK(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    CHECK(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    CHECK(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    CHECK(!ok());
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    CHECK(!ok());
    return std::move(*std::get_if<1>(&state_));
  }

  /// Prepends a place to the error, if there is one.
  Result at(std::string_view place) && {
    if (ok()) return std::move(*this);
    return std::move(*this).error().at(place);
  }

 private:
  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    CHECK(!ok());
    return *error_;
  }
  Error&& error() && {
    CHECK(!ok());
    return std::move(*error_);
  }
  Result at(std::string_view place) && {
    if (ok()) return {};
    return std::move(*error_).at(place);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace colibri

/// TRY(name, expression): binds `name` to the value of a Result, or returns its Error from this function.
#define TRY(name, ...)                                              \
  auto name##_result = (__VA_ARGS__);                               \
  if (!name##_result.ok()) return std::move(name##_result).error(); \
  auto& name = *name##_result

/// TRY_STATUS(expression): returns the Error of a Status from this function, if there is one.
#define TRY_STATUS(...)                                                                             \
  do {                                                                                              \
    if (auto try_status_ = (__VA_ARGS__); !try_status_.ok()) return std::move(try_status_).error(); \
  } while (false)
