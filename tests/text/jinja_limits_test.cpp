// SPDX-License-Identifier: Apache-2.0
// Hostile templates and values: every bound holds, says so, and nothing crashes.
#include <random>

#include <gtest/gtest.h>

#include "text/cases.h"
#include "text/template.h"

namespace colibri {
namespace {

const Json kVariables = Json::Object{{"n", Json(7)}, {"s", Json("text")}, {"xs", Json::Array{Json(1), Json(2)}}};

Result<std::string> render(std::string_view source, const Json& variables = kVariables) {
  auto compiled = ChatTemplate::compile(source, {});
  if (!compiled) return compiled.error();
  return compiled->render_raw(variables);
}

std::string repeated(std::string_view text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

void expect_limit(std::string_view source) {
  const auto rendered = render(source);
  ASSERT_FALSE(rendered.ok()) << source.substr(0, 200);
  EXPECT_EQ(rendered.error().code, Exit::data);
  EXPECT_NE(rendered.error().message.find("template_limit"), std::string::npos) << rendered.error().message;
}

void expect_refused(std::string_view source, std::string_view part) {
  const auto rendered = render(source);
  ASSERT_FALSE(rendered.ok()) << source.substr(0, 200);
  EXPECT_EQ(rendered.error().code, Exit::data);
  EXPECT_NE(rendered.error().message.find(part), std::string::npos) << rendered.error().message;
}

TEST(JinjaLimits, Steps) {
  expect_limit("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}");
  expect_limit("{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}");
  expect_limit("{% set ns = namespace(x=range(99999)|list) %}{% for a in range(99999) %}{{ -1 in ns.x }}{% endfor %}");
  expect_limit("{% for a in range(99999) %}{{ range(99999)|sum }}{% endfor %}");
  expect_limit("{% set t = 'a' * 1000000 %}{% for a in range(99999) %}{% set x = t|length %}{% endfor %}");
  expect_limit("{% set t = 'a' * 1000000 %}{% for a in range(99999) %}{% set x = 'b' in t %}{% endfor %}");
  expect_limit("{% set t = 'a' * 1000000 %}{% for a in range(99999) %}{% set x = t[999999] %}{% endfor %}");
}

TEST(JinjaLimits, MemoryOfStringsAndLists) {
  expect_limit("{% set x = 'a' * 1000000000 %}");
  expect_limit("{% set x = 'ab' * 9223372036854775807 %}");
  expect_limit("{% set x = [1] * 1000000000 %}");
  expect_limit(
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}");
  expect_limit(
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}");
  expect_limit(
      "{% set ns = namespace(x='aaaa') %}{% for i in range(99) %}{% set ns.x = ns.x|replace('a', ns.x) %}{% endfor %}");
  expect_limit("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}");
  expect_limit("{{ 'x'|center(1000000000000) }}");
  expect_limit("{{ 'x'.ljust(1000000000000) }}");
  expect_limit("{{ 'a\nb'|indent(1000000000000) }}");
  expect_limit("{{ '%1000000000d' % 1 }}");
  expect_limit("{{ '{:1000000000}'.format(1) }}");
  expect_limit("{{ range(9)|batch(1000000000000, 'x')|list }}");
  expect_limit("{{ range(9)|slice(1000000000000)|list }}");
  expect_limit("{{ range(0, 9223372036854775807) }}");
  expect_limit(
      "{% set ns = namespace(x=['']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}");
  expect_limit(
      "{% set a = namespace(x='') %}{% set b = namespace(x='') %}{% for i in range(60) %}{% set a.x = [a.x, a.x] %}"
      "{% set b.x = [b.x, b.x] %}{% endfor %}{{ a.x == b.x }}");
}

TEST(JinjaLimits, Output) {
  expect_limit("{% for i in range(99999) %}" + std::string(100, 'x') + "{% endfor %}");
  const auto rendered = render("{{ 'x' * 4194304 }}");
  ASSERT_TRUE(rendered.ok()) << rendered.error().message;
  EXPECT_EQ(rendered->size(), std::size_t{4} << 20);
  expect_limit("{{ 'x' * 4194305 }}");
}

TEST(JinjaLimits, Recursion) {
  expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  expect_limit("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}");
  expect_limit("{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}");
  expect_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
  expect_limit("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}");
  expect_limit("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x|string|length }}");
  expect_limit("{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}");
  expect_limit(
      "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}");
  expect_limit(
      "{% set a = namespace(x=[]) %}{% set b = namespace(x=[]) %}{% for i in range(9999) %}{% set a.x = [a.x] %}"
      "{% set b.x = [b.x] %}{% endfor %}{{ a.x == b.x }}");
  expect_limit(
      "{% set a = namespace(x=()) %}{% for i in range(9999) %}{% set a.x = (a.x,) %}{% endfor %}{{ {a.x: 1} }}");
  EXPECT_TRUE(render("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}.{% endmacro %}{{ m(150) }}").ok());
}

TEST(JinjaLimits, DeepSourcesAreRefused) {
  for (const std::size_t n : {1'000, 50'000}) {
    expect_refused("{{ " + repeated("(", n) + "1" + repeated(")", n) + " }}", "line 1");
    expect_refused("{{ " + repeated("[", n) + repeated("]", n) + " }}", "deep");
    expect_refused("{{ " + repeated("{1:", n) + "1" + repeated("}", n) + " }}", "deep");
    expect_refused("{{ " + repeated("not ", n) + "1 }}", "deep");
    expect_refused("{{ " + repeated("-", n) + "1 }}", "deep");
    expect_refused("{{ 1" + repeated(" + 1", n) + " }}", "deep");
    expect_refused("{{ 1" + repeated("|abs", n) + " }}", "deep");
    expect_refused("{{ n" + repeated(".x", n) + " }}", "deep");
    expect_refused("{{ " + repeated("f(", n) + repeated(")", n) + " }}", "deep");
    expect_refused("{{ " + repeated("1 if 1 else ", n) + "1 }}", "deep");
    expect_refused("{{ 1 is eq " + repeated("[", n) + repeated("]", n) + " }}", "deep");
    expect_refused("{% set " + repeated("(", n) + "x" + repeated(")", n) + " = 1 %}", "deep");
    expect_refused(repeated("{% if 1 %}", n), "deep");
  }
  EXPECT_TRUE(render("{{ 'a'" + repeated(" ~ 'a'", 5'000) + " }}").ok());
  EXPECT_TRUE(render(repeated("{% if n == 1 %}{% endif %}", 5'000)).ok());
  expect_refused(std::string((1 << 20) + 1, 'x'), "larger");
}

TEST(JinjaLimits, NumbersDoNotWrap) {
  for (const char* source : {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}",
                             "{{ 9223372036854775807 * 2 }}", "{{ 2 ** 63 }}", "{{ (-9223372036854775807 - 1)|abs }}",
                             "{{ -(-9223372036854775807 - 1) }}", "{{ (-9223372036854775807 - 1) // -1 }}",
                             "{{ '9223372036854775808'|int }}", "{{ 1e19|int }}", "{{ '%d' % 1e19 }}"})
    expect_refused(source, "overflow");
  expect_refused("{{ 9223372036854775808 }}", "64 bits");
  EXPECT_EQ(*render("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  EXPECT_EQ(
      *render(
          "{{ 's'[9223372036854775807:] }}{{ xs[-9223372036854775807 - 1:9223372036854775807:9223372036854775807] }}"),
      "[1]");
}

TEST(JinjaLimits, NothingOfTheProcessIsReachable) {
  expect_refused("\n{% include '/etc/passwd' %}", "line 2");
  expect_refused("{% import 'os' as os %}", "not supported");
  expect_refused("{% extends 'x' %}", "not supported");
  expect_refused("{% from 'os' import path %}", "not supported");
  expect_refused("{{ ''.__class__.__mro__[1].__subclasses__() }}", "__class__");
  expect_refused("{{ range.__globals__['os'] }}", "__globals__");
  expect_refused("{{ xs['__class__']['x'] }}", "__class__");
  expect_refused("{{ '{0.__class__.__init__}'.format(xs) }}", "__class__");
  expect_refused("{{ [''.__class__]|map(attribute='x')|list }}", "__class__");
  expect_refused("{{ self.x }}", "undefined");
  expect_refused("{{ xs.append(1) }}", "unsafe");
}

TEST(JinjaLimits, ErrorsNameTheLineAndStayOneLine) {
  expect_refused("a\nb\n{{ nofilter|nofilter }}", "line 3: no filter named 'nofilter'");
  expect_refused("a\n{% if s %}\n\n{{ s + 1 }}{% endif %}", "line 4");
  expect_refused("a\n\n{{ 'x\n' ", "line");
  const auto rendered = render("{{ raise_exception('a\nb' * 1000) }}");
  ASSERT_FALSE(rendered.ok());
  EXPECT_EQ(rendered.error().message.find('\n'), std::string::npos);
  EXPECT_LT(rendered.error().message.size(), 1000u);
}

TEST(JinjaLimits, RandomMutationsNeverCrash) {
  const Json file = read_json("tests/text/data/jinja_cases.json");
  const Json& cases = *file.find("cases");
  std::mt19937 random(20260102);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const auto pick = [&]() -> const std::string& {
    return cases.as_array()[below(cases.as_array().size())].find("template")->as_string();
  };
  std::size_t rendered = 0;
  for (int round = 0; round < 5'000; ++round) {
    std::string source = pick();
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(source.size() + 1);
      const std::string& other = pick();
      const std::size_t from = below(other.size() + 1);
      switch (below(4)) {
        case 0:
          source.insert(at, other.substr(from, 1 + below(12)));
          break;
        case 1:
          source.erase(at, 1 + below(6));
          break;
        case 2:
          source.replace(at, 1 + below(3), other.substr(from, 1 + below(3)));
          break;
        default:
          source.insert(at, 1, static_cast<char>(below(256)));
          break;
      }
    }
    SCOPED_TRACE(source);
    const auto result = render(source, *file.find("variables"));
    rendered += result.ok();
    if (result.ok()) {
      EXPECT_LE(result->size(), std::size_t{4} << 20);
    } else {
      EXPECT_EQ(result.error().code, Exit::data);
    }
  }
  EXPECT_GT(rendered, 500u);
}

}  // namespace
}  // namespace colibri
