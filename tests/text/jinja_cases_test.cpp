// SPDX-License-Identifier: Apache-2.0
// Every case of data/jinja_cases.json, whose expectations Jinja2 itself wrote (data/make_jinja_cases.py).
#include <gtest/gtest.h>

#include "base/file.h"
#include "text/template.h"

namespace colibri {
namespace {

std::tm cases_time() {
  std::tm time{};
  time.tm_year = 126;  // 2026-01-02 03:04:05, a Friday
  time.tm_mday = 2;
  time.tm_hour = 3;
  time.tm_min = 4;
  time.tm_sec = 5;
  time.tm_wday = 5;
  time.tm_yday = 1;
  return time;
}

TEST(JinjaCases, RenderAsJinja2Does) {
  const auto text = read_file(COLIBRI_SOURCE_DIR "/tests/text/data/jinja_cases.json", 1 << 26);
  ASSERT_TRUE(text.ok());
  const auto file = parse_json(*text);
  ASSERT_TRUE(file.ok()) << file.error().message;
  std::size_t renderings = 0, refusals = 0;
  for (const Json& entry : file->find("cases")->as_array()) {
    const std::string& source = entry.find("template")->as_string();
    SCOPED_TRACE(source);
    const auto compiled = ChatTemplate::compile(source, {});
    const auto rendered = compiled.ok() ? compiled->render_raw(*file->find("variables"), cases_time())
                                        : Result<std::string>(compiled.error());
    if (const Json* expected = entry.find("expect")) {
      ++renderings;
      EXPECT_TRUE(rendered.ok()) << rendered.error().message;
      if (rendered.ok()) {
        EXPECT_EQ(*rendered, expected->as_string());
      }
    } else {
      ++refusals;
      EXPECT_FALSE(rendered.ok()) << "Jinja2 says " << entry.find("error")->as_string() << ", we " << *rendered;
      if (!rendered.ok()) {
        EXPECT_EQ(rendered.error().code, Exit::data);
      }
    }
  }
  EXPECT_GT(renderings, 600u);
  EXPECT_GT(refusals, 180u);
}

}  // namespace
}  // namespace colibri
