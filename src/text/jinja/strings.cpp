// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/strings.h"

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace colibri::jinja {
namespace {

constexpr auto npos = std::string_view::npos;

List* split_space(Heap& heap, const Str& str, std::int64_t max_splits, bool from_right) {
  const std::string_view text = str.text;
  List* parts = heap.list();
  std::size_t begin = 0, end = text.size();
  const auto trim = [&] {
    begin += leading_space(text.substr(begin, end - begin));
    end -= trailing_space(text.substr(begin, end - begin));
  };
  trim();
  while (begin < end) {
    const bool last = max_splits >= 0 && static_cast<std::int64_t>(parts->items.size()) == max_splits;
    std::size_t cut = from_right ? begin : end;
    if (!last && !from_right) {
      for (std::size_t at = begin; at < end;) {
        const std::size_t start = at;
        if (is_space(next_code_point(text, at))) {
          cut = start;
          break;
        }
      }
    } else if (!last) {
      for (std::size_t at = end; at > begin;) {
        std::size_t start = at - 1;
        while (start > begin && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
        std::size_t next = start;
        if (is_space(next_code_point(text, next))) {
          cut = at;
          break;
        }
        at = start;
      }
    }
    if (last) {
      heap.push(*parts, from_right ? heap.slice(str, 0, end) : heap.slice(str, begin, text.size()));
      break;
    }
    heap.push(*parts, from_right ? heap.slice(str, cut, end) : heap.slice(str, begin, cut));
    (from_right ? end : begin) = cut;
    if (from_right) {
      end -= trailing_space(text.substr(begin, end - begin));
    } else {
      begin += leading_space(text.substr(begin, end - begin));
    }
  }
  if (from_right) std::reverse(parts->items.begin(), parts->items.end());
  return parts;
}

}  // namespace

const Str* change_case(Heap& heap, const Str& text, Case to) {
  heap.scan(text.text.size());
  std::string out;
  out.reserve(text.text.size());
  bool fresh = true;  // at the first character, or for titles, behind one without case
  for (std::size_t at = 0; at < text.text.size();) {
    const char32_t c = next_code_point(text.text, at);
    const bool to_upper = to == Case::upper || (to == Case::swap && is_lower(c));
    if (to_upper) {
      append_upper(out, c);
    } else if ((to == Case::capitalize || to == Case::title) && fresh) {
      append_title(out, c);
    } else {
      append_lower(out, c);
    }
    fresh = to == Case::title && !is_lower(c) && !is_upper(c);
  }
  const Str* made = heap.text(std::move(out), !text.tainted.empty());
  const_cast<Str*>(made)->markup = text.markup;
  return made;
}

const Str* strip(Heap& heap, const Str& str, const Str* chars, bool left, bool right) {
  const std::string_view text = str.text;
  if (chars == nullptr) {
    const std::size_t begin = left ? leading_space(text) : 0;
    const std::size_t end = right ? text.size() - trailing_space(text.substr(begin)) : text.size();
    heap.scan(text.size() - (end - begin));
    return heap.slice(str, begin, end);
  }
  const auto listed = [&](std::size_t at, std::size_t size) {
    heap.scan(chars->text.size());
    const std::string_view c = text.substr(at, size);
    for (std::size_t i = 0; i < chars->text.size();) {
      const std::size_t start = i;
      next_code_point(chars->text, i);
      if (chars->text.substr(start, i - start) == c) return true;
    }
    return false;
  };
  std::size_t begin = 0, end = text.size();
  while (left && begin < end) {
    std::size_t next = begin;
    next_code_point(text, next);
    if (!listed(begin, next - begin)) break;
    begin = next;
  }
  while (right && end > begin) {
    std::size_t start = end - 1;
    while (start > begin && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (!listed(start, end - start)) break;
    end = start;
  }
  return heap.slice(str, begin, end);
}

const Str* replace(Heap& heap, const Str& text, const Str& from, const Str& to, std::int64_t count) {
  heap.scan(text.text.size());
  Builder out(heap);
  std::size_t kept = 0;
  for (std::int64_t done = 0; count < 0 || done < count; ++done) {
    std::size_t at = 0;
    if (from.text.empty()) {  // before every character, and at the end
      at = kept;
      if (done > 0) {
        if (kept >= text.text.size()) break;
        next_code_point(text.text, at);
      }
    } else {
      at = text.text.find(from.text, kept);
      if (at == npos) break;
    }
    heap.work(1);
    out.add_slice(text, kept, at);
    out.add(to);
    kept = at + from.text.size();
  }
  if (kept == 0 && out.size() == 0) return &text;
  out.add_slice(text, kept, text.text.size());
  return out.finish(text.markup);
}

List* split(Heap& heap, const Str& text, const Str* separator, std::int64_t max_splits, bool from_right) {
  heap.scan(text.text.size());
  if (separator == nullptr) return split_space(heap, text, max_splits, from_right);
  const std::string_view cut = separator->text;
  if (cut.empty()) fail("empty separator");
  List* parts = heap.list();
  std::size_t begin = 0, end = text.text.size();
  for (std::int64_t done = 0; max_splits < 0 || done < max_splits; ++done) {
    const std::string_view rest = text.text.substr(begin, end - begin);
    const std::size_t at = from_right ? rest.rfind(cut) : rest.find(cut);
    if (at == npos) break;
    heap.work(1);
    if (from_right) {
      heap.push(*parts, heap.slice(text, at + cut.size(), end));
      end = at;
    } else {
      heap.push(*parts, heap.slice(text, begin, begin + at));
      begin += at + cut.size();
    }
  }
  heap.push(*parts, heap.slice(text, begin, end));
  if (from_right) std::reverse(parts->items.begin(), parts->items.end());
  return parts;
}

List* split_lines(Heap& heap, const Str& text, bool keep_ends) {
  heap.scan(text.text.size());
  List* lines = heap.list();
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.text.size();) {
    const std::size_t size = line_break(text.text, at);
    if (size == 0) {
      next_code_point(text.text, at);
      continue;
    }
    heap.push(*lines, heap.slice(text, begin, keep_ends ? at + size : at));
    begin = at += size;
  }
  if (begin < text.text.size()) heap.push(*lines, heap.slice(text, begin, text.text.size()));
  return lines;
}

const Str* join(Heap& heap, const Str& separator, const List& items, bool convert) {
  Builder out(heap);
  for (std::size_t i = 0; i < items.items.size(); ++i) {
    heap.work(1);
    const Value& item = items.items[i];
    if (!convert && !item.is_string())
      fail("sequence item " + std::to_string(i) + ": expected str instance, " + std::string(type_name(item)) +
           " found");
    if (i > 0) out.add(separator);
    print(out, item);
  }
  return out.finish();
}

const Str* pad(Heap& heap, const Str& text, std::int64_t left, std::int64_t right, const Str& fill) {
  if (count_code_points(fill.text) != 1) fail("The fill character must be exactly one character long");
  if (left <= 0 && right <= 0) return &text;
  for (const std::int64_t side : {left, right})
    heap.require(static_cast<std::size_t>(std::max<std::int64_t>(0, side)), fill.text.size());
  Builder out(heap);
  for (std::int64_t i = 0; i < left; ++i) out.add(fill);
  out.add(text);
  for (std::int64_t i = 0; i < right; ++i) out.add(fill);
  return out.finish(text.markup);
}

const Str* center(Heap& heap, const Str& text, std::int64_t width, const Str& fill) {
  const auto size = static_cast<std::int64_t>(count_code_points(text.text));
  const std::int64_t missing = width > size ? width - size : 0;
  const std::int64_t left = missing / 2 + (missing & width & 1);
  return pad(heap, text, left, missing - left, fill);
}

}  // namespace colibri::jinja
