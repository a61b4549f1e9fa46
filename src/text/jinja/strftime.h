// SPDX-License-Identifier: Apache-2.0
// strftime in the C locale, whatever the process's locale is.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

namespace colibri::jinja {

/// The codes a A b B c d e D F H I j k l m M n p R S t T u U w W x X y Y C G V % ; others stay as they are written.
std::string format_time(std::string_view format, const std::tm& time);

}  // namespace colibri::jinja
