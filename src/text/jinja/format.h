// SPDX-License-Identifier: Apache-2.0
// Python's two formatting languages, as far as templates use them: "%s" % args and "{}".format(args).
#pragma once

#include "text/jinja/value.h"

namespace colibri::jinja {

/// text % value: %s %r %d %i %u %x %X %o %c %e %f %g %%, flags, width, precision, %(name)s over a dict.
Value percent_format(Heap& heap, const Str& text, const Value& value);
/// text.format(...): fields by position, number or name with .attr and [item], !s and !r, and a format spec.
Value brace_format(Interpreter& in, const Str& text, const Args& args);
/// HTML-escapes & < > ' " as markupsafe does.
const Str* escape_html(Heap& heap, const Str& text);

}  // namespace colibri::jinja
