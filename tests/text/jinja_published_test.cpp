// SPDX-License-Identifier: Apache-2.0
// Chat templates as their vendors publish them, against renderings by Jinja2. Their licences keep them out of the
// repository: COLIBRI_TEMPLATES names a folder with the *.jinja files and a cases.json
// ({strftime_now, tokens, sets: {name: variables}, cases: [{template, set, expect | error}]}).
#include <cstdlib>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "base/file.h"
#include "text/template.h"

namespace colibri {
namespace {

std::tm parse_time(const std::string& text) {
  std::tm time{};
  EXPECT_NE(strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time), nullptr);
  return time;
}

TEST(JinjaPublished, RenderAsJinja2Does) {
  const char* folder = std::getenv("COLIBRI_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "COLIBRI_TEMPLATES names no folder of published templates";
  const std::string root = std::string(folder) + "/";
  const auto text = read_file(root + "cases.json", 1 << 28);
  ASSERT_TRUE(text.ok()) << text.error().message;
  const auto file = parse_json(*text);
  ASSERT_TRUE(file.ok()) << file.error().message;
  SpecialTokens tokens;
  for (const auto& [name, token] : file->find("tokens")->as_object()) tokens.emplace_back(name, token.as_string());
  const std::tm now = parse_time(file->find("strftime_now")->as_string());

  std::map<std::string, Result<ChatTemplate>> templates;
  int same = 0, refused = 0, renderings = 0, refusals = 0;
  std::ostringstream different;
  for (const Json& entry : file->find("cases")->as_array()) {
    const std::string& name = entry.find("template")->as_string();
    const std::string& set = entry.find("set")->as_string();
    auto known = templates.find(name);
    if (known == templates.end()) {
      const auto source = read_file(root + name, 1 << 20);
      ASSERT_TRUE(source.ok()) << source.error().message;
      known = templates.emplace(name, ChatTemplate::compile(*source, tokens)).first;
    }
    const auto rendered = known->second.ok() ? known->second->render_raw(*file->find("sets")->find(set), now)
                                             : Result<std::string>(known->second.error());
    if (const Json* expected = entry.find("expect")) {
      ++renderings;
      const bool equal = rendered.ok() && *rendered == expected->as_string();
      same += equal;
      if (!equal)
        different << name << " " << set << ": " << (rendered.ok() ? "differs" : rendered.error().message) << "\n";
    } else {
      ++refusals;
      refused += !rendered.ok();
      if (rendered.ok()) different << name << " " << set << ": rendered, Jinja2 refuses it\n";
    }
  }
  std::cout << same << " of " << renderings << " renderings equal, " << refused << " of " << refusals << " refused\n"
            << different.str();
  EXPECT_GE(same, 390);
  EXPECT_GE(refused, 85);
}

}  // namespace
}  // namespace colibri
