// SPDX-License-Identifier: Apache-2.0
// Generated sections of documents, between <!-- NAME --> and <!-- /NAME -->.
// Invariant: a stale section fails; with COLIBRI_WRITE_DOCS set it is replaced instead.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include "model/fixture.h"

namespace colibri::test {

inline void expect_section(const std::string& document, const std::string& name, const std::string& content) {
  const std::string path = kSource + "/" + document;
  const std::string text = slurp(path);
  const std::string begin = "<!-- " + name + " -->\n";
  const std::size_t from = text.find(begin);
  const std::size_t to = text.find("<!-- /" + name + " -->");
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos && from < to) << document << " has no " << name;
  const std::size_t first = from + begin.size();
  if (std::getenv("COLIBRI_WRITE_DOCS") != nullptr) {
    std::ofstream(path, std::ios::binary) << text.substr(0, first) << content << text.substr(to);
    return;
  }
  EXPECT_TRUE(text.substr(first, to - first) == content)
      << document << ": the section " << name << " is stale; run this test with COLIBRI_WRITE_DOCS=1";
}

}  // namespace colibri::test
