// SPDX-License-Identifier: Apache-2.0
// The strict reading of a request's head, before any parser sees it: what two servers could read in two ways is refused
// (request smuggling), and so is what is larger than its limit.
// Invariant: pure functions of the bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"

namespace colibri {

inline constexpr std::size_t kMaxHeadBytes = 16 * 1024;
inline constexpr std::size_t kMaxTargetBytes = 8 * 1024;
inline constexpr std::size_t kMaxHeaders = 100;

/// What is wrong with the request line (without its line end): 400, 414, 501, 505.
std::optional<ApiError> check_request_line(std::string_view line);

/// What is wrong with a whole head: request line and header lines, each with its CRLF, without the empty line.
std::optional<ApiError> check_head(std::string_view head);

/// What is wrong with the headers of a request that carries JSON: 415 for other content or encodings.
std::optional<ApiError> check_json_content(const std::vector<std::pair<std::string, std::string>>& headers);

/// The value of a header, by its lower-case name; empty where there is none.
std::string_view header(const std::vector<std::pair<std::string, std::string>>& headers, std::string_view name);

/// The path of a target: without a query, and without scheme and authority where it has them.
std::string_view path_of(std::string_view target);

/// %41 to A. Nothing where an escape is broken.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace colibri
