// SPDX-License-Identifier: Apache-2.0
// Tokens to a Program. Throws Fault with the line on what Jinja2 refuses, and on include, import, extends.
#pragma once

#include <memory>
#include <string_view>

#include "text/jinja/ast.h"

namespace colibri::jinja {

std::shared_ptr<const Program> parse(std::string_view source);

}  // namespace colibri::jinja
