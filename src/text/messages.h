// SPDX-License-Identifier: Apache-2.0
// Chat messages as clients send them, brought into the form that one template can render.
// Invariant: texts are only moved or joined, never changed; what cannot be rendered is an error that names its place.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "base/json.h"

namespace colibri {

/// What a template understands, as found by rendering small probes when it is loaded.
struct TemplateTraits {
  static constexpr std::array<std::string_view, 4> kRoles = {"user", "system", "assistant", "tool"};

  std::array<bool, kRoles.size()> keeps_parts{};  // by role: a list of text parts is rendered as its texts
  bool wants_parts = false;                       // and a plain string is not
  bool knows_developer = false;                   // the role "developer"
  bool wants_argument_text = false;               // the arguments of tool calls are expected as JSON text
  bool wants_null_content = false;                // calls are rendered only where the message's content is null

  bool keeps_parts_of(std::string_view role) const;
};

/// `messages` must be an array of objects with a role. Content: null becomes "", text parts are joined where the
/// template wants one string; parts of other types are refused. Arguments of tool calls given as text become the object
/// they spell.
Result<Json> normalize_messages(const Json& messages, const TemplateTraits& traits);

}  // namespace colibri
