// SPDX-License-Identifier: Apache-2.0
// The published configurations in data/published.tsv.
// Invariant: a line is a name, the parameters that its makers state and that transformers counts, and config.json as it
// was published.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "model/fixture.h"

namespace colibri::test {

struct Published {
  std::string name;           // as ORG/MODEL
  std::string total, active;  // "30.5B"; "-": not stated
  std::string counted;        // by transformers; "-": it has no such model
  std::string config;         // text, which may hold Infinity
};

inline std::vector<Published> all_published() {
  std::istringstream lines(slurp(kSource + "/tests/model/data/published.tsv"));
  std::vector<Published> all;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    Published one;
    std::istringstream fields(line);
    for (std::string* field : {&one.name, &one.total, &one.active, &one.counted, &one.config})
      std::getline(fields, *field, '\t');
    all.push_back(one);
  }
  return all;
}

inline Json published_config(const std::string& name) {
  for (const Published& one : all_published())
    if (one.name == name) return json_of(one.config);
  ADD_FAILURE() << "no published configuration of " << name;
  return {};
}

}  // namespace colibri::test
