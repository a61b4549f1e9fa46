// SPDX-License-Identifier: Apache-2.0
// Reads the members of tokenizer.json's objects. Invariant: a member of the wrong kind is an error that names its key.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace colibri {

/// Text out of a file as it may stand in a message: quoted, escaped, cut.
std::string shown(std::string_view text);

Result<std::string> string_field(const Json& object, std::string_view key);
/// A missing or null member is "" or `fallback`.
Result<std::string> optional_string_field(const Json& object, std::string_view key);
Result<bool> bool_field(const Json& object, std::string_view key, bool fallback);
/// An integer from 0 to `limit`.
Result<std::size_t> count_field(const Json& object, std::string_view key, std::size_t limit);
Result<const Json::Array*> array_field(const Json& object, std::string_view key);

}  // namespace colibri
