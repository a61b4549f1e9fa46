// SPDX-License-Identifier: Apache-2.0
// What Python's str can do, shared by filters and methods. Taint is exact where text is only moved about, and covers
// the whole result where its characters change.
#pragma once

#include "text/jinja/value.h"

namespace colibri::jinja {

enum class Case : std::uint8_t { lower, upper, capitalize, title, swap };

const Str* change_case(Heap& heap, const Str& text, Case to);
/// Strips white space, or the characters of `chars` where given, at the chosen ends.
const Str* strip(Heap& heap, const Str& text, const Str* chars, bool left, bool right);
/// The first `count` replacements, all where it is negative.
const Str* replace(Heap& heap, const Str& text, const Str& from, const Str& to, std::int64_t count);
/// At `separator`, or at runs of white space where it is null; at most `max_splits` from the left or right, all where
/// it is negative.
List* split(Heap& heap, const Str& text, const Str* separator, std::int64_t max_splits, bool from_right);
List* split_lines(Heap& heap, const Str& text, bool keep_ends);
/// The items joined; those that are no strings fail unless `convert`.
const Str* join(Heap& heap, const Str& separator, const List& items, bool convert);
/// Padded on both sides by `left` and `right` copies of `fill`.
const Str* pad(Heap& heap, const Str& text, std::int64_t left, std::int64_t right, const Str& fill);
/// As str.center counts.
const Str* center(Heap& heap, const Str& text, std::int64_t width, const Str& fill);

}  // namespace colibri::jinja
