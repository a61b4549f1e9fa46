// SPDX-License-Identifier: Apache-2.0
// Typed, bounded members of a JSON object, for files that people write by hand.
// Invariant: the first error sticks and names file and key; after it every read still gives a legal value (the lower
// bound), so that a parser is a straight line of reads with one question at its end.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace colibri {

class ConfigReader {
 public:
  /// `object` outlives the reader; `place` is the file's name.
  ConfigReader(const Json& object, std::string place);

  /// A member that is null counts as absent.
  bool has(std::string_view key) const { return find(key) != nullptr; }

  int integer(std::string_view key, int min, int max);
  int integer_or(std::string_view key, int fallback, int min, int max);
  /// An integer, or a list that repeats one (files that give it for each layer).
  int integer_alike(std::string_view key, int min, int max);
  double real(std::string_view key, double min, double max);
  double real_or(std::string_view key, double fallback, double min, double max);
  /// The same with a warning where it is absent: the family means `fallback`, but the file does not say so.
  double real_assumed(std::string_view key, double fallback, double min, double max);
  bool flag(std::string_view key);
  bool flag_or(std::string_view key, bool fallback);
  std::string text_or(std::string_view key, std::string fallback);
  /// Refuses a text, where there is one, that is not among these.
  void expect(std::string_view key, std::initializer_list<std::string_view> supported);
  /// Absent: empty. Every element within the bounds.
  std::vector<int> integers(std::string_view key, int min, int max);
  std::vector<double> reals(std::string_view key, double min, double max);
  std::vector<std::string> texts(std::string_view key);

  /// Names of all members.
  std::vector<std::string> keys() const;

  /// The member object, read with the same error; an empty one where it is absent.
  ConfigReader object(std::string_view key);
  /// Those of a list, none where it is absent.
  std::vector<ConfigReader> objects(std::string_view key);

  /// Records "<place>: <key>: <why>" unless there is an error already.
  void refuse(std::string_view key, std::string_view why);
  bool failed() const { return said_->error.has_value(); }
  /// The first error, if there was one.
  Status status() const;

  /// Records the same as a line for the user, who gets the model nevertheless.
  void warn(std::string_view key, std::string_view what);
  const std::vector<std::string>& warnings() const { return said_->warnings; }

 private:
  struct Said {
    std::optional<Error> error;
    std::vector<std::string> warnings;
  };

  ConfigReader(const Json* object, std::string place, std::shared_ptr<Said> said);
  std::string line(std::string_view key, std::string_view text) const;
  const Json* find(std::string_view key) const;
  const Json* require(std::string_view key);
  int bounded(std::string_view key, const Json& value, int min, int max);
  double bounded(std::string_view key, const Json& value, double min, double max);

  const Json* object_;
  std::string place_;
  std::shared_ptr<Said> said_;  // with the readers of member objects
};

}  // namespace colibri
