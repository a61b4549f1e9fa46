#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes jinja_cases.json: small templates with what Jinja2 3.1.6 makes of them, in the environment that
transformers gives to chat templates. Run it with Python 3.11 and that version of jinja2 installed:

    python3 tests/text/data/make_jinja_cases.py

A case is {"template", "variables", and "expect" or "error"}; "error" is the exception's type, its words are not compared.
"""
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def make_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


DATA = {
    "s": "Hello, World",
    "u": "Grüße, 世界 🙂 ñ",
    "e": "",
    "pad": "  \t spaced \n ",
    "lines": "one\ntwo\r\n\n  three\n",
    "n": 42,
    "neg": -7,
    "f": 3.14159,
    "big": 9007199254740993,
    "t": True,
    "no": False,
    "none": None,
    "xs": [3, 1, 2],
    "words": ["banana", "Apple", "cherry", "apple"],
    "mixed": [1, "two", 3.0, None, True, [4, 5], {"k": "v"}],
    "d": {"b": 1, "a": 2, "C": 3, "items": "shadow"},
    "nested": {"x": {"y": [{"z": "deep"}]}},
    "users": [
        {"name": "Zoe", "age": 30, "tags": ["a", "b"], "active": True},
        {"name": "adam", "age": 25, "tags": [], "active": False},
        {"name": "Bob", "age": 30, "active": True},
    ],
    "tree": [{"n": 1, "kids": [{"n": 2, "kids": []}, {"n": 3, "kids": [{"n": 4, "kids": []}]}]}, {"n": 5, "kids": []}],
    "html": "<b>\"A\" & 'B'</b>",
    "quotes": "it's \"so\" \\ \x07 \x7f é \u200b \n",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi <there>"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1, "b": "x"}}}]},
    ],
}

# Expressions: each is printed alone.
EXPRESSIONS = r"""
1 + 2 * 3
(1 + 2) * 3
2 ** 3 ** 2
-2 ** 2
7 // 2
-7 // 2
7 // -2
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
7 / 2
8 / 2
1e3
1.5e-7
1e16
1e15
123456789012345680.0
0.1 + 0.2
1_000 + 0x1f + 0b101 + 0o17
1 / 3
2 ** -1
2 ** 0.5
2 ** 62
1e308 * 10
-1e308 * 10
0.0
-0.0
5 - -3
+5
true + 1
true and 'x' or 'y'
none or 'z'
0 or none
'' and 1
not true
not not 1
1 < 2 < 3
1 < 3 < 2
1 == 1.0
true == 1
'a' < 'b'
'Z' < 'a'
[1, 2] < [1, 3]
(1, 2) < (1, 2, 0)
[1, 2] == [1, 2]
[1] == (1,)
{'a': 1} == {'a': 1.0}
none == undefined_name
undefined_name == other_undefined
1 in xs
9 not in xs
'ell' in s
'a' in d
not 'a' in d
'x' in undefined_name
none in mixed
'a' ~ 1 ~ none ~ 2.0 ~ true ~ undefined_name
'a' + 'b' ~ 'c'
'ab' * 3
3 * 'ab'
'ab' * -1
[1, 2] * 2
[1] + [2]
(1,) + (2,)
'x' 'y' "z"
'a' if true else 'b'
'a' if false
('a' if false) is undefined
'a' if no else 'b' if t else 'c'
s[0]
s[-1]
s[7:]
s[:5]
s[-5:]
s[::-1]
s[::2]
s[10:2:-3]
s[100:]
s[-100:3]
s[5:2]
u[7:9]
u[::-1]
u[-4]
u|length
xs[0]
xs[-1]
xs[1:]
xs[::-1]
xs[5]
xs[5] is defined
xs['0']
(1, 2, 3)[1:]
range(10)[2:8:3]
range(5)[-1]
d.b
d['a']
d.items()
d.keys()
d.values()
d['items']
d.missing
d.missing is defined
nested.x.y[0].z
nested['x']['y'].0.z
messages[2].tool_calls[0].function.arguments.b
none.foo
n.foo is undefined
s.foo is undefined
mixed
mixed|string
d
(1,)
()
[]
{}
(1, 'a')
{'a': (1, 2), 1: none, 2.5: true}
quotes
[quotes]
["it's", 'say "x"', 'both \' and "']
u
[u]
["\u00ad", "\ue000", "\u2028", "a\tb"]
[1.0, 1e100, 1e-5, 100000.0, 12345678.9]
true
none
none is none
range(3)
range(1, 7, 2)
range(0)
range(5, 0, -2)|list
'\x41\u00e9\U0001F642\t|\n|\\|\'|\"|\101|\q'
dict(a=1, b=2)
dict([('x', 1), ('y', 2)])
dict({'q': 1}, r=2)
namespace(a=1).a
namespace(a=1, b='x')
namespace({'k': 3}).k
strftime_now('%Y-%m-%d %H:%M:%S')
strftime_now('%d %b %Y, %A %B %a %j %U %W %w %u %y %I %p %e|%-d|%-m|%%|%H%M')
strftime_now('%F %T %D %R %G-%V %C %c')
strftime_now('')
'%s is %d years, %.2f%% %5s|%-5s|%05d|%x|%X|%o|%e|%g|%r' % ('Bob', 42, 99.5, 'a', 'b', 42, 255, 255, 8, 12345.678, 0.0001, 'q')
'%(a)s-%(b)03d' % {'a': 'x', 'b': 7}
'%s' % 'one'
'%s' % none
'%s and %s' % (xs, d)
'%c%c' % (65, 'z')
'%+d % d %5.1f' % (3, 4, 2.25)
'%*d' % (5, 42)
'%i %u' % (3.9, -2)
'{} {}'.format('a', 1)
'{1} {0} {1}'.format('a', 'b')
'{name}: {v:>6} {v:<6}| {v:^6} {v:06.2f} {v:+.1e}'.format(name='n', v=3.14159)
'{0[a]} {0[b]} {1[0]}'.format(d, xs)
'{{}} {!r} {!s}'.format('q', 'q')
'{:,} {:_} {:x} {:#x} {:b} {:o} {:%} {:.1%}'.format(1234567, 1234567, 255, 255, 5, 8, 0.25, 0.125)
'{:*^11} {:>3} {:.2}'.format('mid', 'long', 'cut')
'{:{w}}|'.format('x', w=4)
'{:5}|{:<5}|{:d}'.format(42, 42, 7)
"a.b.c".split('.')
'  a  b c '.split()
'  a  b c '.split(none, 1)
'  a  b c '.rsplit(none, 1)
'  a  b c '.rsplit()
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.rsplit(',', 1)
''.split()
''.split(',')
'<think>x</think>y'.split('</think>')[-1]
lines.splitlines()
lines.splitlines(true)
''.splitlines()
pad.strip() ~ '|'
pad.lstrip() ~ '|'
'|' ~ pad.rstrip() ~ '|'
'xxabcxx'.strip('x')
'xyabcyx'.strip('xy')
'éàbcàé'.strip('éà')
'xxabcxx'.lstrip('x') ~ 'xxabcxx'.rstrip('x')
'\n\nabc\n'.strip('\n')
s.upper()
s.lower()
u.upper()
u.lower()
'hello wORLD it\'s'.title()
'hELLO wORLD'.capitalize()
'hELLO'.swapcase()
'straße'.upper()
s.startswith('Hell')
s.startswith(('x', 'He'))
s.endswith('ld')
s.startswith('World', 7)
s.startswith('')
s.replace('l', 'L')
s.replace('l', 'L', 2)
'aaa'.replace('a', 'b', 1)
'abc'.replace('', '-')
'abc'.replace('', '-', 2)
'日本'.replace('', '.')
s.find('o')
s.find('o', 5)
s.rfind('o')
s.find('zz')
u.find('界')
s.index('W')
s.count('l')
'aaaa'.count('aa')
'abc'.count('')
', '.join(['a', 'b'])
''.join([])
'-'.join('abc')
'-'.join(d)
'12'.isdigit() ~ '1a'.isdigit() ~ ''.isdigit() ~ '½'.isdigit()
'ab'.isalpha() ~ 'a1'.isalpha() ~ '世'.isalpha()
'a1'.isalnum() ~ 'a_'.isalnum()
' \t'.isspace() ~ ''.isspace()
'AB1'.isupper() ~ 'aB'.islower() ~ '12'.islower()
'12'.isnumeric() ~ '12'.isdecimal()
'x'.ljust(4) ~ '|' ~ 'x'.rjust(4, '.') ~ '|' ~ 'x'.center(4) ~ '|' ~ 'xy'.center(5, '*')
'-42'.zfill(6) ~ '7'.zfill(3)
'prefix-x'.removeprefix('prefix-') ~ 'x.py'.removesuffix('.py') ~ 'x'.removesuffix('')
'a=b=c'.partition('=')
'a=b=c'.rpartition('=')
'abc'.partition('=')
xs.index(2)
xs.count(1)
(1, 1).count(1)
d.get('a')
d.get('zz')
d.get('zz', 'dflt')
d.copy()
xs.copy()
''.__class__
''.__class__ is defined
xs.append is defined
"a" is string and 1 is not string
1 is number and 1.5 is number and true is number
1 is integer and true is not integer
1.0 is float and 1 is not float
true is boolean and 1 is not boolean
t is true and no is false and 1 is not true
none is none
undefined_name is defined
undefined_name is not defined
undefined_name is undefined
d is mapping and xs is not mapping
xs is iterable and s is iterable and 1 is not iterable and none is not iterable
xs is sequence and s is sequence and d is sequence and 1 is not sequence
undefined_name is sequence
undefined_name is iterable
(xs|map('string')) is sequence
d.items() is sequence
range(3) is sequence
3 is odd and 4 is even
9 is divisibleby 3
9 is divisibleby(4)
'abc' is lower and 'ABC' is upper
'a1' is lower and '1' is not lower
1 is eq 1
1 is equalto(2)
1 is ne 2 and 1 is lt 2 and 2 is gt 1 and 1 is le 1 and 1 is ge 1
1 is lessthan 2 and 2 is greaterthan 1
1 is in [1, 2]
'a' is in 'abc'
none is sameas none
true is sameas true
range is callable and 1 is not callable
'trim' is filter and 'nope' is not filter
'odd' is test and 'nope' is not test
('<'|e) is escaped and '<' is not escaped
undefined_name
undefined_name|default('x')
none|default('x')
''|default('x')
''|default('x', true)
none|d('x', boolean=true)
0|default(5, true)
undefined_name|default
'  x '|trim ~ '|'
'xxaxx'|trim('x')
none|trim
5|trim
'MiXed'|lower ~ 'MiXed'|upper
5|upper
'hello wORLD-foo (bar) it\'s'|title
'hELLO wORLD'|capitalize
''|capitalize
s|replace('l', 'L')
s|replace('l', 'L', 1)
123|replace(2, 'x')
xs|length
d|length
u|count
undefined_name|length
xs|first
xs|last
s|first
s|last
d|first
[]|first
[]|first is undefined
[]|last
xs|join
xs|join(', ')
xs|join(d='-')
users|join(', ', attribute='name')
s|join('.')
undefined_name|join('x')
mixed|join('|')
d|dictsort
d|dictsort(true)
d|dictsort(reverse=true)
d|items|list
undefined_name|items|list
d|list
s|list
xs|list
(1, 2)|list
d.items()|list
undefined_name|list
xs|sort
words|sort
words|sort(case_sensitive=true)
words|sort(reverse=true)
words|sort(true, true)
users|sort(attribute='age')|map(attribute='name')|list
users|sort(attribute='age,name')|map(attribute='name')|list
users|sort(attribute='name', reverse=true)|map(attribute='name')|list
words|unique|list
words|unique(true)|list
users|unique(attribute='age')|map(attribute='name')|list
[1, 1.0, true, '1']|unique|list
xs|reverse|list
s|reverse
(xs|reverse)|join
d|reverse|list
xs|sum
[]|sum
[0.1, 0.2]|sum
users|sum(attribute='age')
users|sum('age', 100)
xs|max ~ xs|min
words|max ~ words|min
words|min(case_sensitive=true)
users|max(attribute='age')|string
[]|min
[]|max is undefined
range(7)|batch(3)|list
range(7)|batch(3, 'x')|list
range(7)|slice(3)|list
range(7)|slice(3, 'x')|list
range(2)|slice(4)|list
users|map(attribute='name')|join(',')
users|map(attribute='nope', default='-')|list
{'b': 2, 'a': 1}|dictsort(by='value')
{'b': 2, 'a': 1}|dictsort(false, 'value', true)
words|map('upper')|list
words|map('replace', 'a', '_')|list
xs|map('string')|join
none|map('upper')|list
users|selectattr('active')|map(attribute='name')|list
users|rejectattr('active')|map(attribute='name')|list
users|selectattr('age', 'equalto', 30)|map(attribute='name')|list
users|selectattr('age', '>', 25)|map(attribute='name')|list
users|selectattr('tags', 'defined')|map(attribute='name')|list
users|rejectattr('tags', 'defined')|map(attribute='name')|list
users|selectattr('name', 'in', ['Bob', 'Zoe'])|map(attribute='name')|list
messages|selectattr('role', 'equalto', 'user')|list|length
mixed|select('string')|list
mixed|select|list
mixed|reject('none')|list
xs|select('odd')|list
xs|reject('odd')|list
xs|select('divisibleby', 3)|list
xs|select('gt', 1)|first
users|groupby('age')|length
users|groupby('age')|map(attribute=0)|list
(users|groupby('age'))[0].grouper
(users|groupby('age'))[1].list|map(attribute='name')|list
users|groupby('nope', default='none')|map('first')|list
'42'|int
'42.9'|int
'x'|int
'x'|int(7)
'0x1f'|int(0, 16)
'1f'|int(base=16)
'0b11'|int(0, 0)
' 12 '|int
'1_000'|int
'-5'|int
3.99|int
-3.99|int
none|int
true|int
'1e3'|int
xs|int
'3.5'|float
'abc'|float
'abc'|float(1.5)
'inf'|float
'nan'|float
'-1e5'|float
7|float
none|float
3.14159|round
3.14159|round(2)
2.5|round
3.5|round
2.675|round(2)
42.55|round(1, 'floor')
42.51|round(1, 'ceil')
42|round
42|round(1)
-5|abs
5.5|abs
-0.5|abs
none|string ~ '|'
5|string ~ true|string
undefined_name|string ~ '|'
html|e
html|escape
(html|e)|e
html|forceescape
html|safe
('<'|e) + '<'
('<'|safe) + '<'
'<' + ('>'|e)
('<'|e) ~ '<'
[html|e]
html|e|upper
html|striptags
'<p>a  <br/> b</p><!-- <i>x</i> -->&lt;c&gt;'|striptags
html|urlencode
'a/b c?d=é&f'|urlencode
{'a b': 'c&d', 'e': 1}|urlencode
[('a', 1), ('b', 'x y')]|urlencode
'hello big world, it\'s_me 42'|wordcount
'%s-%s'|format('a', 2)
'%(x)s'|format(x=5)
'a\nb\n\nc'|indent
'a\nb\n\nc'|indent(2)
'a\nb\n\nc'|indent(2, true)
'a\nb\n\nc'|indent(width=2, first=true, blank=true)
'a\nb'|indent('> ')
'a\nb\n'|indent(2) ~ '|'
''|indent(2, true) ~ '|'
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, true)
'foo bar baz qux'|truncate(11)
'foo bar baz qux'|truncate(9, false, '..', 0)
'foo bar baz qux'|truncate(9, end='', leeway=0)
'foobarbazqux'|truncate(6, leeway=0)
'x'|center(5) ~ '|'
'xy'|center(5) ~ '|'
'x'|center ~ '|'
d|tojson
mixed|tojson
u|tojson
u|tojson(ensure_ascii=true)
quotes|tojson
"\x00\x1f\b\f/"|tojson
mixed|tojson(indent=2)
{'a': [], 'b': {}, 'c': [1, {'d': 2}]}|tojson(indent=4)
[]|tojson(indent=2)
[1, [2]]|tojson(indent=0)
[1, [2]]|tojson(indent='\t')
d|tojson(separators=(',', ':'))
d|tojson(indent=1, separators=(', ', ' = '))
d|tojson(sort_keys=true)
{1: 2, 2.5: 3, true: 4, none: 5}|tojson
(1, 2)|tojson
1.0|tojson ~ 1e100|tojson ~ 0.1|tojson ~ 1e-7|tojson
none|tojson ~ true|tojson
html|tojson
'nan'|float|tojson
d|attr('a') is defined
d|attr('keys') is defined
xs|map('abs')|map('string')|join('+')
d.items()|map('first')|join
(xs|map('string'))|join ~ xs|map('string')|join
loop is defined
caller is defined
messages[0]['content'].split()[0]|lower
messages|map(attribute='role')|join(',')
messages[2].content is none
messages[1:]|map(attribute='role')|list
messages[::-1][0].role
(messages|last).role
1 if messages[0].role == 'system' else 0
'tool_calls' in messages[2]
messages[2].tool_calls is iterable and messages[2].tool_calls is not mapping
messages[0].tool_calls is defined
(messages[0].tool_calls or [])|length
"a" "b"|upper
-1|abs
-xs[0]
not xs
1 -1
[1,2,][0]
{'a': 1,}.a
(1,)|length
[[1, 2], [3]]|map('sum')|list
[[3, 'b'], [1, 'a']]|sort
'é' in u
10000000000 * 10000000
9223372036854775807
-9223372036854775807 - 1
'abc'|map('upper')|list
'x'.join(xs|map('string'))
[1,2,3]|map('string')|list|tojson
xs is string or d is mapping
'a' ~ ('b' if no)
"{}".format(none) ~ "{}".format(xs)
'ß'|upper ~ 'ß'|title ~ 'ß'|capitalize
'ŒUVRE'|lower
'Ünïcode wörds'|title
d['C'] ~ d.C
cycler('a', 'b').next()
d | length > 3
xs | sum / 3
(none,)|first is none
[undefined_name]
[undefined_name]|join('-') ~ '|'
undefined_name ~ undefined_name
undefined_name or 'fallback'
not undefined_name
"%d%%" % 50
'a%sb' % ('x',)
xs|string|length
range(3)|join(',')
[true, false]|map('string')|join(',')
d.keys()|list|first
d.values()|sum if no else d['a'] + d['b']
true is eq true
nested|tojson
s|trim|upper|length
words|map('length')|max
words|map('first')|join
users[0].tags[0] ~ users[1].tags|length
users[2].tags|default([])|length
"tab\there"|tojson
"\u0007"|tojson
"a"|e|tojson
[1,2]|join(undefined_name)
""|first is undefined
"abc"[1]
"abc"[5] is undefined
"abc"['upper']()
{"upper": 1}.upper
d["keys"]()|list
xs|batch(2)|map('first')|list
"x\u00a0y".split()
"a\u2028b".splitlines()
"\u3000 x \u3000"|trim
"k: %s" % {'a': 1}
"%s" % [1, 2]
"%5.2s|" % 'abc'
"%-8r|" % 'a'
"%#x %#o" % (255, 8)
'{:08.3f}'.format(-3.14159)
'{:+}'.format(5)
'{:>+8.2f}'.format(2.5)
'{:e}'.format(12345.6789)
'{:g} {:g}'.format(1e10, 0.00001)
'{0.missing}'.format(d) is string
'{:.0f}'.format(2.5)
""".strip("\n").split("\n")

# Whole templates: white space, statements, scopes.
TEMPLATES = [
    "", "plain", "a\n", "a\n\n", "\n", "a\r\nb\rc\n", "{", "{ {", "a{b}c", "%}", "}}", "#}", "{{ '{{' }}", "{{ '%}' }}",
    "{{ {'a': {'b': 1}} }}", "{{ {'a': {}}['a'] }}", "{{1}}", "{{- 1 -}}", "a {{- 1 -}} b", "a \n {{- 1 -}} \n b",
    "a {{+ 1 }} b", "a\n  {% if t %}\n  x\n  {% endif %}\n b", "a\n  {%- if t %}\n  x\n  {%- endif %}\n b",
    "a\n  {% if t -%}\n  x\n  {% endif -%}\n b", "a\n  {%+ if t %}\n  x\n  {%+ endif %}\n b",
    "a\n  {% if t +%}\n  x\n  {% endif +%}\n b", "  {% if t %}x{% endif %}\n\ny", "  {{ 1 }}\n  {{ 2 }}\n",
    " a {% if t %} b {% endif %} c ", "a\n\t {% set x = 1 %}\n\nb{{ x }}", "{% if t %}\n\n\nx{% endif %}",
    "x {# comment #} y", "x\n  {# comment #}\ny", "x\n  {#- comment -#}\n  y", "{# a\nb #}\nc", "x {#+ keep +#}\n y", "{#-#}x",
    "{# {{ nope }} {% bad %} #}ok", "{% raw %}{{ x }}{% if %}{% endraw %}", "  {% raw %}\n  a {{ b }}\n  {% endraw %}\n  c",
    "{%- raw -%}\n  a\n {%- endraw -%}\n b", "x\n  {% raw %} y {% endraw %}\nz", "a{% raw %}\n{% endraw %}\nb",
    "{% if t %}a{% elif no %}b{% else %}c{% endif %}", "{% if no %}a{% elif t %}b{% else %}c{% endif %}",
    "{% if no %}a{% elif no %}b{% else %}c{% endif %}", "{% if no %}a{% endif %}", "{% if n > 40 and s %}y{% endif %}",
    "{% if undefined_name %}a{% else %}b{% endif %}", "{% if xs, %}tuple{% endif %}",
    "{% for x in xs %}{{ x }},{% endfor %}", "{% for x in [] %}a{% else %}none{% endfor %}",
    "{% for x in undefined_name %}a{% else %}none{% endfor %}", "{% for c in u %}[{{ c }}]{% endfor %}",
    "{% for k in d %}{{ k }} {% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }} {% endfor %}", "{% for a, b in [[1, 2], (3, 4)] %}{{ a }}{{ b }} {% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
    "{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}",
    "{% for x in xs %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }} {% endfor %}",
    "{% for x in xs if x > 9 %}a{% else %}empty{% endfor %}",
    "{% for x in xs if x > 1 %}{{ loop.length }}{{ loop.last }}{{ loop.nextitem }}{{ loop.revindex }} {% endfor %}",
    "{% for x in xs|reverse %}{{ loop.length }}{{ x }}{{ loop.last }} {% endfor %}",
    "{% for x in range(6) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% for y in xs %}{% if y == x %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% for x in [1] %}{% break %}{% else %}runs{% endfor %}|",
    "{% for x in [1] %}{% continue %}{% else %}runs{% endfor %}|", "{% for x in [1, 2] %}{% if x > 1 %}{% break %}{% endif %}{% else %}no{% endfor %}|",
    "{% for x in xs %}{% for y in 'ab' %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% for item in tree recursive %}{{ item.n }}{{ loop.depth }}({{ loop(item.kids) }}){% endfor %}",
    "{% for item in tree recursive %}{{ loop.index }}{% if item.kids %}[{{ loop(item.kids) }}]{% endif %}{% else %}-{% endfor %}",
    "{% for x in xs %}\n{{ x }}\n{% endfor %}\nend", "{%- for x in xs -%}\n  {{ x }}\n{%- endfor -%}\n end",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x in (1, 2) if x > 1 %}{{ x }}{% endfor %}",
    "{% for x in xs recursive %}{{ x }}{% endfor %}", "{% for x in xs: %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x = 1, 2 %}{{ x }}", "{% set (x, y) = 'ab' %}{{ y }}{{ x }}",
    "{% set x = 1 %}{% for i in xs %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}", "{% if no %}{% set x = 2 %}{% endif %}{{ x is defined }}",
    "{% for i in xs %}{% set y = i %}{% endfor %}{{ y is defined }}", "{% for i in xs %}{% endfor %}{{ i is defined }}",
    "{% set ns = namespace(n=0) %}{% for i in xs %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = [ns.a] %}{{ ns.b }}{{ ns.c is defined }}{{ ns['a'] }}",
    "{% set ns = namespace(a=0) %}{% macro f() %}{% set ns.a = ns.a + 1 %}{% endmacro %}{{ f() }}{{ f() }}{{ ns.a }}",
    "{% set ns = namespace(x=1) %}{% set ns.x, y = 5, 6 %}{{ ns.x }}{{ y }}",
    "{% set ns = namespace(stop=false) %}{% for x in range(9) if not ns.stop %}{{ x }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "{% set x %}  body {{ n }} {% endset %}[{{ x }}]", "{% set x | upper | trim %}  body {% endset %}[{{ x }}]",
    "{% set x %}{% for i in xs %}{{ i }}{% endfor %}{% endset %}{{ x }}{{ x|length }}",
    "{% set x %}\n  a\n{% endset %}\n[{{ x }}]", "{% set x %}<{% endset %}{{ x|e }}",
    "{% set y = 1 %}{% set x %}{% set y = 2 %}{{ y }}{% endset %}{{ x }}{{ y }}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ a }}{{ varargs|join('.') }}{% endmacro %}{{ m(1, 2, 3) }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}inner {{ n }}{% endcall %}",
    "{% macro m(xs) %}{% for x in xs %}<{{ caller(x, loop.index) }}>{% endfor %}{% endmacro %}{% call(x, i) m(xs) %}{{ i }}:{{ x }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% set x = 2 %}{{ m() }}",
    "{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{{ m() }}{{ x is defined }}", "{% macro m() %}{{ n }}{% endmacro %}{{ m() }}",
    "{% for i in xs %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}",
    "{% macro m() %} a {% endmacro %}[{{ m() }}][{{ m()|trim }}][{{ m() is string }}]",
    "{% macro m(a='x') %}{{ a }}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m is callable }}", "{%- macro m() -%}\n  x\n{%- endmacro -%}\n{{ m() }}",
    "{% macro m(d) %}{{ d.a }}{% endmacro %}{{ m({'a': 7}) }}{{ m(*[d]) }}{{ m(**{'d': d}) }}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(x=m(x=1)) }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aaa{% endfilter %}",
    "{% filter indent(2) %}a\nb{% endfilter %}", "{% set q = 1 %}{% filter trim %} {% set q = 2 %}{{ q }} {% endfilter %}{{ q }}",
    "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% generation %}x{{ n }}{% endgeneration %}", "a\n{% generation %}\nb\n{% endgeneration %}\nc",
    "{% set g = 1 %}{% generation %}{% set g = 2 %}{{ g }}{% endgeneration %}{{ g }}",
    "{% print n %}", "{% print n, s %}", "{% set c = cycler('x', 'y') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{% set _ = c.reset() %}{{ c.next() }}",
    "{% set j = joiner() %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}", "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b",
    "{% if s is string and 'nope' is not filter %}ok{% endif %}", "{% if false %}{{ x|nofilter }}{% endif %}ok",
    "{{ 'a' if true else x|nofilter }}", "{% if false %}{{ x is notest }}{% endif %}ok",
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if not loop.last %}\n{% endif %}{% endfor %}",
    "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.name }}({{ c.function.arguments|tojson }}){% endfor %}"
    "{% elif m['content'] is string %}{{ m['content']|trim }}{% endif %}{% endfor %}",
    "{% set loop_messages = messages[1:] if messages[0]['role'] == 'system' else messages %}{{ loop_messages|length }}",
    "{% if messages[0]['role'] == 'system' -%}\n    {% set sys = messages[0]['content'] -%}\n{% else -%}\n    {% set sys = '' -%}\n{% endif -%}\n{{ sys }}",
    "{%- if tools %}\n    {{- 'tools' }}\n{%- else %}\n    {{- 'no tools' }}\n{%- endif %}\n\n{{- '!' }}",
    "{{ 'x' }}\n\n{{ 'y' }}\n", "{% set x = [1, 2] + [3] %}{{ x }}", "{{ xs|map('string')|join }}{{ xs|length }}",
    "{% set a = xs|map('string') %}{{ a|join }}{{ a|join }}", "{% set x = {'k': [1]} %}{{ x.k[0] }}{{ x['k'][-1] }}",
    "{% for x in d.values() %}{{ x }}{% endfor %}", "{% for i in range(3) %}{{ i }}{% endfor %}", "{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}",
    "{{ [\n1,\n2\n] }}", "{{ n\n}}\n{{ s }}", "{%\nif t\n%}x{%\nendif\n%}", "{{'a'}}{{'b'}}", "<{{ none }}><{{ true }}><{{ 1.50 }}><{{ [] }}>",
    "{% set messages = [] %}{{ messages|length }}",
    "{% for x in xs -%} {{ x }} {%- endfor %}", "{% for x in xs +%}\n{{ x }}{% endfor %}", "a\n\n\n{%- if t %} b {%- endif %}\n\n\nc",
    "{{ '\\n' }}{% if t %}\n{{ 'x' }}\n{% endif %}{{ 'y' }}", "   {%- if t -%}   x   {%- endif -%}   y", "\u00a0{%- if t %}x{% endif %}", "é{{ 'ü' }}→\n",
    "{% set x = 5 %}{{ -x }}{{ +x }}{{ - x|abs }}", "{% if not no and (t or no) %}y{% endif %}", "{% if 1 in [1] and 2 not in [1] %}y{% endif %}",
]

# What Jinja2 refuses, when compiling or when rendering.
ERRORS = r"""
{{ 1 ~ 2 + 3 }}
{{ d|dictsort(by='value') }}
{{ users|map(attribute='tags.0')|list }}
{{ 'x' * 3 | length }}
{{ 1 + 2 | string }}
{{ 1 if a is defined if b else c }}
{% for x in xs %}{% set loop = 5 %}{% endfor %}
{{
{{ 1
{% if %}x{% endif %}
{% if t %}x
{% for x in xs %}
{% endfor %}
{% endif %}
{% nope %}
{% for x xs %}{% endfor %}
{% for 1 in xs %}{% endfor %}
{% set %}
{% set 1 = 2 %}
{% set true = 1 %}
{% set s.x = 1 %}
{% set x.y = 1 %}
{% macro %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% call 1 %}{% endcall %}
{% break %}
{% continue %}
{% macro m() %}{% break %}{% endmacro %}
{# open
{% raw %}x
{{ 'open }}
{{ (1 }}
{{ [1 }}
{{ 1) }}
{{ {'a' 1} }}
{{ }}
{{ 1 + }}
{{ * 2 }}
{{ a b }}
{{ ! }}
{{ x| }}
{{ x|nofilter }}
{{ x is notest }}
{{ x.  }}
{{ f(a=1, 2) }}
{{ f(a=1, a=2) }}
{{ '\ud8' }}
{{ x is a is b }}
{% if t %}{{ x|nofilter }}{% endif %}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{% from 'x' import y %}
{{ undefined_name.foo }}
{{ undefined_name['foo'] }}
{{ undefined_name() }}
{{ undefined_name + 1 }}
{{ 1 + undefined_name }}
{{ 'a' + undefined_name }}
{{ undefined_name < 1 }}
{{ -undefined_name }}
{{ undefined_name[1:] }}
{{ d.missing.deeper }}
{{ none.foo.bar }}
{{ none['x'].y }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + (2,) }}
{{ 'a' + none }}
{{ 'a' - 'b' }}
{{ 'a' * 'b' }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ 'a' < 1 }}
{{ none < 1 }}
{{ [1] < [none] }}
{{ 1 in 5 }}
{{ 1 in 'abc' }}
{{ none in none }}
{{ s() }}
{{ none() }}
{{ 5|length }}
{{ none|length }}
{{ (xs|map('string'))|length }}
{{ none|join }}
{{ 5|list }}
{{ none|first }}
{{ (xs|map('string'))|last }}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% set a, b = [1] %}
{{ xs.append(1) }}
{{ xs.pop() }}
{{ d.update({}) }}
{{ d.pop('a') }}
{{ xs.sort() }}
{{ d.clear() }}
{{ d.setdefault('a', 1) }}
{{ ''.__class__.__mro__ }}
{{ xs.__class__() }}
{{ range.__globals__.x }}
{{ {[1]: 2} }}
{{ d[[1]].x }}
{{ d.get([]) }}
{{ d.get() }}
{{ s.nope() }}
{{ xs.nope() }}
{{ s.split('') }}
{{ s.index('zz') }}
{{ xs.index(99) }}
{{ ', '.join([1]) }}
{{ s.replace('a') }}
{{ s.startswith(1) }}
{{ s[::0] }}
{{ s['a':] }}
{{ d[1:] }}
{{ raise_exception('boom') }}
{{ range(1, 2, 0) }}
{{ range(200000) }}
{{ range('a') }}
{{ namespace(1) }}
{{ dict([1]) }}
{{ undefined_name|tojson }}
{{ (xs|map('string'))|tojson }}
{{ namespace(a=1)|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ none|dictsort }}
{{ d|dictsort(by='x') }}
{{ mixed|sort }}
{{ [1, 'a']|max }}
{{ ['a']|sum }}
{{ [[1]]|unique|list }}
{{ undefined_name|int }}
{{ undefined_name|float }}
{{ 'a'|round }}
{{ 'a'|abs }}
{{ none|abs }}
{{ 1.5|round(1, 'nope') }}
{{ 5|indent }}
{{ none|indent }}
{{ 'abc'|truncate(2) }}
{{ '%d'|format('x') }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ '%q' % 1 }}
{{ '%(a)s' % {} }}
{{ '{' .format(1) }}
{{ '{} {}'.format(1) }}
{{ '{x}'.format(y=1) }}
{{ '{:d}'.format('x') }}
{{ xs|map('nofilter')|list }}
{{ xs|select('notest')|list }}
{{ xs|map|list }}
{{ users|selectattr|list }}
{{ [none]|map('upper')|map('nofilter')|list }}
{{ xs|batch }}
{{ xs|slice(0)|list }}
{{ s|trim(1) }}
{{ s|replace('a') }}
{{ s|upper(1) }}
{{ s|default(1, 2, 3) }}
{{ xs|join(nope=1) }}
{{ s.upper(1) }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}
{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% for x in xs %}{{ loop() }}{% endfor %}
{% for x in xs %}{{ loop(xs) }}{% endfor %}
{% for x in xs %}{{ loop.cycle() }}{% endfor %}
{% for x in xs %}{{ loop.previtem.x }}{% endfor %}
{{ cycler() }}
{{ strftime_now() }}
{{ 'a' is divisibleby 2 }}
{{ 1 is divisibleby 0 }}
{{ none is odd }}
{{ 1 is in 5 }}
{{ [] is lt 1 }}
{{ f(*1) }}
{{ xs|join(*1) }}
{{ dict(**1) }}
{{ 'a'.center() }}
{{ 'a'.ljust(3, 'xx') }}
{{ (-8) ** 0.5 + 'a' }}
{{ 0 ** -1 }}
{{ 10.0 ** 400 }}
{{ messages[9].role }}
{{ messages[0].content.parts[0].text }}
{{ messages[2].content + '\n' }}
{{ messages[2].content|length }}
{{ (1 if no) + 1 }}
{{ [].x.y }}
{{ 'a'.b.c }}
""".strip("\n").split("\n")


def main():
    env = make_environment()
    cases = []

    def run(template):
        case = {"template": template}
        try:
            case["expect"] = env.from_string(template).render(**DATA)
        except Exception as error:  # whatever Jinja2 lets through is an error to us
            case["error"] = type(error).__name__
        return case

    for expression in EXPRESSIONS:
        case = run("{{ " + expression + " }}")
        assert "expect" in case, (expression, case)
        cases.append(case)
    for template in TEMPLATES:
        case = run(template)
        assert "expect" in case, (template, case)
        cases.append(case)
    for template in ERRORS:
        case = run(template)
        assert "error" in case, (template, case)
        cases.append(case)
    out = {"jinja2": jinja2.__version__, "strftime_now": NOW.isoformat(), "variables": DATA, "cases": cases}
    path = pathlib.Path(__file__).with_name("jinja_cases.json")
    path.write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(f"{len(cases)} cases in {path}")


if __name__ == "__main__":
    main()
