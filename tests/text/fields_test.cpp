// SPDX-License-Identifier: Apache-2.0
// Texts of hostile files as messages show them: cut at a character, quoted, and never for ever.
#include "text/fields.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

TEST(Fields, LongTextIsCutWhereACharacterBegins) {
  EXPECT_EQ(shown("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(shown(std::string(59, 'a') + "世世"), "\"" + std::string(59, 'a') + "...\"");
  EXPECT_EQ(shown(std::string(100, 'a')), "\"" + std::string(60, 'a') + "...\"");
  EXPECT_EQ(shown(std::string(100, '\x80')).substr(0, 1), "\"") << "no character begins at all";
}

}  // namespace
}  // namespace colibri
