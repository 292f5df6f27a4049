"""Writes the golden chat templates: small templates, each for a construct or a pitfall of published ones, with what transformers renders.

    tools/venv tools/golden/templates.py [--out tests/data/templates/cases.json]

Each case has a name, the template's source, a request (JSON as text: see runtime/chat_template.h), and what it gives: `text`; or `failed`, the exception
when it runs (with `message` where raise_exception was called); or `refused`, the exception when it is compiled. The clock says 2024-07-26 15:04:05.000678.
"""
import argparse
import datetime
import json
import pathlib

from transformers.utils import chat_template_utils as chat

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, 15, 4, 5, 678)


chat.datetime = Clock

HELLO = [{"role": "user", "content": "Hi"}]
TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  Hi \n"}, {"role": "assistant", "content": "<think>t</think>\n\nYo"},
         {"role": "user", "content": "Q?"}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "é <b> & 'q' \"d\"", "parameters": {"type": "object", "properties": {
    "x": {"type": "integer", "enum": [1, 2.0, None, True]}, "y": {"type": "string"}}, "required": ["x"]}}}]
CALLS = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [
    {"type": "function", "function": {"name": "f", "arguments": {"x": 1, "y": "é\n"}}}]}, {"role": "tool", "name": "f", "content": "[1]"}]
ODD = {"a": "\u0000\u001f\u007f\u2028/\\\"'<>&é😀", "b": [1, 2.0, -0.0, 1e100, 1e16, 1e-5, 0.1, None, True], "big": 123456789012345678901234567890, "e": [], "d": {}}

CASES = {
    "chatml": ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}", TURNS),
    "no generation prompt": ("{{ messages|length }}{% if add_generation_prompt %}A{% else %}N{% endif %}", {"messages": HELLO, "add_generation_prompt": False}),
    "special tokens": ("{{ bos_token }}{{ eos_token }}{{ pad_token }}{% if pad_token is defined %}P{% endif %}", HELLO),
    "overridden variables": ("{{ bos_token }} {{ foo }} {{ range }}", {"messages": HELLO, "bos_token": "B", "foo": [1], "range": "r"}),
    "blocks trim": ("a\n  {% if true %}\n  b\n  {% endif %}  \nc\n\n{# note #}\nd {# x #}\ne\n", HELLO),
    "white space marks": ("a  \n {%- if true -%} \n b {{- ' c ' -}} \n d {%+ if true %} e{% endif +%}\n f {%- endif %}\ng{{+1}}|{{-1}}\n  {{ 2 }}\n", HELLO),
    "white space marks balanced": ("a  \n {%- if true -%} \n b {{- ' c ' -}} \n d \n  {%+ if true %} e{% endif +%}\n f {%- endif %}\ng|{{-1}}\n  {{ 2 }}\n", HELLO),
    "comments": ("a {#- x -#} b\n  {# y #}\nc{#+ z +#}\n d {#\n#}e", HELLO),
    "raw": ("x\n  {% raw %}\n{{ a }} {% if %}{# c #}\n  {% endraw %}\ny {%- raw -%} z {%- endraw -%} \n w", HELLO),
    "last newline": ("a\n\n", HELLO),
    "carriage returns": ("a\r\nb\rc{{ 'd\r\ne' }}\r\n", HELLO),
    "string escapes": (r"""{{ 'a\n\t\'\"\\\x41\u00e9\U0001F600\101\q\é' }}{{ "b" 'c' "d" }}{{ 'a\
b' }}""", HELLO),
    "numbers": ("{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 00 }} {{ 1.5e3 }} {{ 1e-7 }} {{ 1.0 }} {{ 12345678901234567890123 }} {{ 1_0.2_5 }} {{ 2E2 }}", HELLO),
    "arithmetic": ("{{ -7//2 }} {{ -7%3 }} {{ 7/2 }} {{ 2**70 }} {{ 7//-2 }} {{ 7 % -3 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 2**-1 }} {{ 2**0.5 }} {{ 3 * 'ab' }} {{ [1]*2 }}"
                   " {{ 1 + true }} {{ -true }} {{ +5 }} {{ 6 - 2 - 1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 1 - -1 }} {{ 10 / 5 }} {{ (1,) + (2,) }}", HELLO),
    "big integers": ("{{ big }} {{ big + 1 }} {{ big * big }} {{ -big // 7 }} {{ big % 97 }} {{ big // 12345678901234567 }} {{ 9223372036854775807 + 1 }} {{ -9223372036854775807 - 2 }}"
                     " {{ big == big + 0 }} {{ big > 1e20 }} {{ big|tojson }} {{ big / 3 }} {{ 2**53 + 1 == 2.0**53 }} {{ 7 ** 60 }} {{ '%d' % big }} {{ '{:,}'.format(big) }}",
                     {"messages": HELLO, "big": 123456789012345678901234567890}),
    "floats": ("{{ 1e16 }} {{ 0.1 + 0.2 }} {{ 1e22 }} {{ 123456789.0 }} {{ 1e15 }} {{ 1.5e-5 }} {{ 0.0001 }} {{ 1/3 }} {{ 1e300 * 1e10 }} {{ -1e300 * 1e10 }} {{ 5e-324 }} {{ 100.0 }}", HELLO),
    "python text": ("{{ messages }}|{{ none }}|{{ true }}|{{ [1, 'a', none, true, 1.0, {'b': \"c'd\"}] }}|{{ ('x',) }}|{{ () }}|{{ {1: 2, 'k': []} }}|{{ x }}|{{ [x] }}",
                    [{"role": "user", "content": "a'b\"c\\ \n\t\x00\x7f\u00a0\u200b\u2028é😀\ue000"}]),
    "comparison": ("{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 3 > 2 >= 2 != 1 }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ 1 == 1.0 == true }}{{ '1' == 1 }}{{ none == none }}{{ x == y }}{{ (1,) == [1] }}"
                   "{{ 1 in [1] }}{{ 'b' in 'abc' }}{{ 'k' in {'k': 1} }}{{ 2 not in (1, 3) }}{{ not 1 in [2] }}{{ 1 < 2 == true }}{{ [] == [] }}{{ {'a': 1} == {'a': 1.0} }}", HELLO),
    "logic": ("{{ 0 or 'x' }}{{ '' and 'y' }}|{{ [] or none }}{{ 1 and 2 and 3 }}{{ not '' }}{{ not not 1 }}{{ x or 'd' }}{{ 1 if x else 2 }}{{ 'z' if false }}|{{ 1 if 0 else 2 if 0 else 3 }}", HELLO),
    "concatenation": ("{{ 1 ~ 'a' ~ none ~ x ~ 2.0 ~ [1] }}{{ 'a' + 'b' ~ 'c' }}{{ 1 ~ 2 * 3 }}", HELLO),
    "slices": ("{{ messages[::-1]|map(attribute='role')|join(',') }} {{ 'abcdef'[1:-1] }} {{ 'abcdef'[::-2] }} {{ 'aé😀z'[1:3] }}{{ 'aé😀z'[-1] }}{{ 'aé😀z'[::-1] }} {{ [1,2,3,4][1:] }} {{ [1,2,3][:-1] }}"
               " {{ (1,2,3)[::2] }} {{ 'abc'[5:] }} {{ 'abc'[-9:2] }} {{ [1,2,3][5:1:-1] }} {{ range(10)[2:8:3]|list }} {{ 'abc'[none:none] }}", TURNS),
    "items and attributes": ("{{ messages[0].role }}{{ messages[0]['role'] }}{{ messages[-1].content }}{{ messages.0.role }}{{ {'a': {'b': 7}}.a.b }}{{ 'abc'[1] }}{{ 'abc'[9] }}{{ messages[99] }}"
                             "{{ messages[0].nope }}{{ [1]['x'] }}{{ {1: 'one'}[1] }}{{ {1: 'one'}[1.0] }}{{ (1, 2)[-2] }}{{ d['a'] }}{{ d.get('a') }}{{ d.get('z') }}{{ d.get('z', 5) }}",
                             {"messages": HELLO, "d": {"a": "A"}}),
    "shadowed keys": ("{{ m['items'] }}|{{ m['keys'] }}|{{ m.x }}|{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}{{ m.items is callable }}{{ m['get'] is callable }}{{ m.get('get', 1) }}",
                      {"messages": HELLO, "m": {"items": 1, "keys": 2, "x": 3}}),
    "undefined": ("{{ nope }}|{{ nope is defined }}|{{ nope is undefined }}|{{ nope|default('d') }}|{{ nope|length }}|{% for a in nope %}x{% else %}e{% endfor %}|{{ nope or 1 }}|{{ [nope] }}|{{ nope|list }}"
                  "|{{ nope == none }}|{{ messages[0].a is defined }}|{{ (nope|default({})).x }}|{{ 'x' in nope }}|{{ nope|join }}", HELLO),
    "undefined attribute fails": ("{{ nope.x }}", HELLO),
    "undefined item fails": ("{{ messages[0].nope['x'] }}", HELLO),
    "undefined sum fails": ("{{ nope + 'a' }}", HELLO),
    "undefined call fails": ("{{ nope() }}", HELLO),
    "loops": ("{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem.role if loop.previtem is defined }}"
              "{{ loop.nextitem.role if not loop.last }}{{ loop.cycle('x', 'y') }}{{ loop.changed(m.role) }}{{ loop.depth }}{{ loop }}\n{% endfor %}{{ loop is defined }}", TURNS),
    "loop unpacking": ("{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}-{{ b }};{% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for k, v in {'p': 1}.items() %}{{ k }}{{ v }}{% endfor %}", HELLO),
    "loop filters": ("{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }}{{ m.content }}{% else %}none{% endfor %}{% for m in messages if m.role == 'x' %}y{% else %}none{% endfor %}"
                     "{% set ns = namespace(n=0) %}{% for i in range(6) if ns.n < 3 %}{% set ns.n = ns.n + 1 %}{{ i }}{% endfor %}{% for a, b in [(1, 2), (3, 4)] if b > 2 %}{{ a }}{{ loop.first }}{% endfor %}", TURNS),
    "break and continue": ("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{% else %}E{% endfor %}|{% for i in [1] %}{% break %}{% else %}E{% endfor %}|"
                           "{% for i in [1, 2] %}{{ i }}{% continue %}{% else %}E{% endfor %}|{% for i in [1, 2] %}{% set x %}a{% if i == 1 %}{% continue %}{% endif %}b{% endset %}{{ x }}{% endfor %}", HELLO),
    "loop else": ("{% for i in [] %}x{% else %}empty{% endfor %}{% for i in [1] %}x{% else %}empty{% endfor %}", HELLO),
    "recursive loops": ("{% for n in t recursive %}{{ loop.depth }}{{ loop.depth0 }}{{ n.v }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% if not loop.last %},{% endif %}{% endfor %}",
                        {"messages": HELLO, "t": [{"v": 1, "c": [{"v": 2}, {"v": 3, "c": [{"v": 4}]}]}, {"v": 5}]}),
    "scopes": ("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i + 10 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 5 %}{% endif %}{{ x }}{% for i in [1] %}{% set y = 1 %}{% endfor %}{{ y is defined }}"
               "{% if false %}{% set z = 1 %}{% endif %}{{ z is defined }}{{ i is defined }}{% with x = 9, w = x %}{{ x }}{{ w }}{% set x = 3 %}{{ x }}{% endwith %}{{ x }}", HELLO),
    "namespace": ("{% set ns = namespace(a=1, b=[]) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{% set ns.c, d = 4, 5 %}{{ ns.c }}{{ d }}{{ ns }}{{ ns.zz is defined }}{% set n = namespace({'q': 1}, r=2) %}{{ n.q }}{{ n.r }}", HELLO),
    "namespace needs one": ("{% set x = {} %}{% set x.a = 1 %}", HELLO),
    "namespace refuses underscores": ("{% set ns = namespace() %}{% set ns._a = 1 %}", HELLO),
    "set blocks": ("{% set x %}a{{ 1 }}{% for i in [1, 2] %}{{ i }}{% endfor %}{% endset %}[{{ x }}]{% set y | upper | replace('A', 'b') %}a{{ x }}{% endset %}[{{ y }}]{% set ns = namespace() %}{% set ns.t %}q{% endset %}{{ ns.t }}", HELLO),
    "set lists": ("{% set a, b = 1, 'x' %}{{ b }}{{ a }}{% set c = 1, 2 %}{{ c }}{% set (d, e) = [3, 4] %}{{ d + e }}", HELLO),
    "macros": ("{% macro f(a, b=2, c=a) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(b=7, a=6) }}{{ f() }}{% macro g(x) %}{{ x }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ g(1, 2, 3, k=4) }}{{ f.name }}{{ f.arguments }}", HELLO),
    "macro recursion": ("{% macro t(n) %}{{ n.v }}{% for c in n.c or [] %}<{{ t(c) }}>{% endfor %}{% endmacro %}{{ t(tree) }}{% macro fact(n) %}{{ 1 if n < 2 else n * fact(n - 1)|int }}{% endmacro %}{{ fact(25) }}",
                        {"messages": HELLO, "tree": {"v": 1, "c": [{"v": 2, "c": [{"v": 3}]}, {"v": 4}]}}),
    "macro scopes": ("{% set x = 1 %}{% macro f() %}{{ x }}{{ y }}{% set x = 5 %}{{ x }}{% endmacro %}{{ f() }}{% set x = 2 %}{{ f() }}{{ x }}{% set y = 3 %}{{ f() }}{% for i in [1] %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}", HELLO),
    "macro arguments fail": ("{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}", HELLO),
    "macro keyword fails": ("{% macro f(a) %}{{ a }}{% endmacro %}{{ f(z=2) }}", HELLO),
    "call blocks": ("{% macro box(t) %}<{{ t }}>{{ caller(7) }}</{{ t }}>{% endmacro %}{% call(n) box('b') %}in {{ n }}{% endcall %}{% macro m() %}{{ caller is defined }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}", HELLO),
    "filter blocks": ("{% filter upper %}a{{ 'b' }}{% endfilter %}{% filter replace('x', y)|trim %} xz {% endfilter %}{% set y = 'q' %}", {"messages": HELLO, "y": "w"}),
    "generation": ("{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% set z = 1 %}{% endgeneration %}{% else %}{{ m.role }}{% endif %}{% endfor %}{{ z is defined }}", TURNS),
    "globals": ("{{ range(3)|list }}{{ range(1, 9, 3)|list }}{{ range(3, 0, -1)|list }}{{ dict(a=1, b='x') }}{{ dict([('k', 2)], z=3) }}{{ dict.fromkeys('ab', 0) }}{% set c = cycler('o', 'e') %}{{ c.next() }}{{ c.next() }}{{ c.current }}"
                "{% set j = joiner('|') %}{% for i in range(3) %}{{ j() }}{{ i }}{% endfor %}{{ range(3) }}{{ range(1, 5, 2) }}", HELLO),
    "raise_exception": ("{% if messages[0].role != 'system' %}{{ raise_exception('System first: got ' ~ messages[0].role) }}{% endif %}", HELLO),
    "strftime_now": ("{{ strftime_now('%d %b %Y %H:%M:%S.%f %j %A %y %% %Z|') }}{% if strftime_now is defined %}{% set date_string = strftime_now('%Y-%m-%d') %}{% endif %}{{ date_string }}", HELLO),
    "date_string overrides": ("{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}Today Date: {{ date_string }}", {"messages": HELLO, "date_string": "26 Jul 2024"}),
    "tojson": ("{{ x|tojson }}|{{ tools|tojson }}|{{ tools[0]|tojson(indent=2) }}|{{ x|tojson(ensure_ascii=True) }}|{{ {'b': 1, 'a': [2]}|tojson(sort_keys=true) }}|{{ [1, {'a': 2}]|tojson(separators=(',', ':')) }}"
               "|{{ []|tojson(indent=4) }}{{ {}|tojson(indent=4) }}|{{ {'a': [], 'b': {}}|tojson(indent=1) }}|{{ (1, 2)|tojson }}|{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}|{{ 'é'|safe|tojson }}|{{ (1e300*1e10)|tojson }}",
               {"messages": HELLO, "tools": TOOLS, "x": ODD}),
    "tojson of undefined fails": ("{{ nope|tojson }}", HELLO),
    "tojson of a list of undefined fails": ("{{ [nope]|tojson }}", HELLO),
    "tools": ("{% if tools %}{% for t in tools %}{{ t.function.name }}({% for k, v in t.function.parameters.properties.items() %}{{ k }}: {{ v.type }}{{ ', ' if not loop.last }}{% endfor %}){% endfor %}{% endif %}{{ tools is none }}", {"messages": HELLO, "tools": TOOLS}),
    "no tools": ("{{ tools is none }}{{ tools }}{{ documents is none }}{% if tools is not none %}T{% endif %}", HELLO),
    "tool calls": ("{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.name }} {{ c.function.arguments|tojson }}{% endfor %}{% elif m.role == 'tool' %}{{ m.name }}: {{ m.content }}{% else %}{{ m.content }}{% endif %}{{ m.content is defined }}\n{% endfor %}", CALLS),
    "null keys are dropped": ("{% for m in messages %}{{ m.content is defined }}{{ m['name'] }}{{ m|length }};{% endfor %}{{ v is none }}", {"messages": [{"role": "user", "content": None, "name": None}, {"role": "user", "content": [{"a": None}]}], "v": None}),
    "reasoning names": ("{% for m in messages %}{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.reasoning }}|{{ m }}\n{% endfor %}",
                        [{"role": "assistant", "content": "a", "thinking": "T"}, {"role": "assistant", "reasoning": "R", "content": "b"}, {"role": "assistant", "content": "c", "reasoning_content": "C", "thinking": "t"}, {"role": "user", "content": "d", "reasoning": None}]),
    "continue the last message": ("{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}", {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b c "}], "continue_final_message": True}),
    "continue a trimmed message": ("{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</{{ m.role }}>{% endfor %}", {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b c "}], "continue_final_message": True}),
    "continue blocks": ("{% for m in messages %}<{{ m.role }}>{% for b in m.content %}{{ b.text }}{% endfor %}</{{ m.role }}>{% endfor %}", {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}], "continue_final_message": True}),
    "markup": ("{{ ('<a>'|safe) + '<b>' }}|{{ '<b>' + ('<a>'|safe) }}|{{ ('<a>'|safe) ~ '<b>' }}|{{ ('<a>'|safe)|replace('a', '<') }}|{{ ('<a>'|safe).replace('a', '<') }}|{{ '<a>'|e }}|{{ '<a>'|e|e }}|{{ '<a>'|escape|forceescape }}"
               "|{{ ['<a>'|safe] }}|{{ ('<a>%s'|safe) % '<' }}|{{ ('<a>{}'|safe).format('<') }}|{{ ('<a>'|safe)|upper + '<' }}|{{ ['<', '>'|safe]|join('&') }}|{{ ('&'|safe).join(['<', '>']) }}|{{ 'x'|safe is string }}{{ 'x'|safe is escaped }}"
               "|{{ ('<a> b'|safe).split()[0] + '<' }}|{{ ('ab'|safe)[0] + '<' }}|{{ ('<'|safe) * 2 + '<' }}|{{ 'a&\"\\''|e }}|{{ none|e }}|{{ ('a\nb'|safe)|indent(2) + '<' }}", HELLO),
    "unknown filter in a branch": ("{% if false %}{{ 1|nofilter }}{% endif %}{{ 1|nofilter if false else 'ok' }}{% if 1 is notest and false or true %}{% endif %}", HELLO),
    "unknown filter in a branch not taken": ("{% if false %}{{ 1|nofilter }}{{ 1 is notest }}{% endif %}{{ 1|from_json if false else 'ok' }}", HELLO),
    "unknown filter is reached": ("{% if true %}{{ 1|from_json }}{% endif %}", HELLO),
    "unknown filter is refused": ("a{{ 1|nofilter }}", HELLO),
    "unknown filter in a loop is refused": ("{% if false %}{% for i in [] %}{{ i|nofilter }}{% endfor %}{% endif %}", HELLO),
    "unknown test is refused": ("{{ 1 is notest }}", HELLO),
    "append is refused": ("{% set x = [] %}{% set _ = x.append(1) %}", HELLO),
    "append alone is undefined": ("{{ [].append is defined }}{{ [].append }}{{ {}.pop is undefined }}{{ ''.__class__ is defined }}{{ {}['update'] is defined }}{{ [].count is defined }}", HELLO),
    "sandbox": ("{{ ''.__class__.__mro__ }}", HELLO),
    "filters on text": ("{{ ' a '|trim }}{{ 'xxaxx'|trim('x') }}|{{ 'aB'|upper }}{{ 'aB'|lower }}{{ 'aB c'|capitalize }}|{{ 'a-b (c) d\\'e [f] ÀB'|title }}|{{ 'aaa'|replace('a', 'b', 2) }}{{ 5|replace(5, 6) }}|{{ 'a'|center(5) }}|{{ 5|string + 'x' }}"
                        "|{{ 'a b  c_d é1-2'|wordcount }}|{{ 'foo bar baz qux'|truncate(9) }}|{{ 'foo bar baz qux'|truncate(9, true) }}|{{ 'foo bar baz qux'|truncate(11) }}|{{ 'foo bar baz qux'|truncate(11, false, '..', 0) }}|{{ 'a/b c?&é'|urlencode }}|{{ {'a': 'b c', 'd': 1}|urlencode }}"
                        "|{{ {'a': '<', 'b': none, 'c': 1}|xmlattr }}|{{ '%s-%d'|format('a', 3) }}{{ '%(x)s'|format(x=1) }}|{{ 'abc'|reverse }}|{{ 'abc'|first }}{{ 'abc'|last }}{{ 'é😀'|length }}{{ 'ab'|list }}", HELLO),
    "indent": ("{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(width=1, blank=true) }}|{{ 'a\r\nb\x0bc\u2028d'|indent('> ', first=True) }}|{{ ''|indent(3, true) }}|{{ 'a\n'|indent }}|", HELLO),
    "numbers from text": ("{{ '42'|int }}{{ '42.9'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '0x1f'|int(base=16) }} {{ '1_0'|int }} {{ ' -5 '|int }} {{ 3.99|int }} {{ -3.99|int }} {{ true|int }} {{ none|int(1) }} {{ '٣'|int }} {{ '1e3'|int }} {{ 'ff'|int(0, 16) }} {{ '0b11'|int(0, 0) }} {{ '1e400'|int }}"
                          " {{ '1.5'|float }} {{ 'inf'|float }} {{ 'x'|float(2.5) }} {{ 3|float }} {{ '1_0.5'|float }} {{ '.5'|float }} {{ '5.'|float }} {{ '-iNf'|float }} {{ 'nan'|float }} {{ '1e400'|float }} {{ '123456789012345678901'|int }} {{ -5|abs }} {{ -2.5|abs }}", HELLO),
    "rounding": ("{{ 42.55|round }} {{ 42.55|round(1, 'floor') }} {{ 42.55|round(1, 'ceil') }} {{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 5|round }} {{ 15|round(-1) }} {{ 25|round(-1) }} {{ -2.5|round }} {{ 1234.5|round(-2) }} {{ 42|round(0, 'ceil') }} {{ 0.5|round|int }} {{ 1e300|round(2) }}"
                 " {{ 1000|filesizeformat }} {{ 1|filesizeformat }} {{ 500|filesizeformat }} {{ 1024|filesizeformat(true) }} {{ 123456789|filesizeformat }} {{ '1e30'|filesizeformat }}", HELLO),
    "filters on sequences": ("{{ [3, 1, 2]|sort }}{{ ['b', 'A', 'c']|sort }}{{ ['b', 'A']|sort(case_sensitive=true) }}{{ [1, 2]|sort(reverse=true) }}{{ messages|sort(attribute='role')|map(attribute='role')|list }}{{ [3, 1]|min }}{{ ['b', 'A']|min }}{{ ['b', 'C']|max }}{{ [[1, 'z'], [2, 'y']]|max(attribute=1) }}{{ []|min is defined }}"
                             "{{ ['a', 'A', 'b', 'a']|unique|list }}{{ ['a', 'A']|unique(case_sensitive=true)|list }}{{ {'b': 1, 'A': 2}|dictsort }}{{ {'b': 1, 'A': 2}|dictsort(by='value', reverse=true) }}{{ {'b': 1, 'A': 2}|dictsort(true) }}{{ [1, 2, 3]|sum }}{{ [{'n': 1}, {'n': 2.5}]|sum('n') }}{{ [[1], [2]]|sum(start=[]) }}"
                             "{{ [1, 2, 3, 4, 5]|batch(2)|list }}{{ [1, 2, 3]|batch(2, 'x')|list }}{{ [1, 2, 3, 4, 5]|slice(3)|list }}{{ [1, 2, 3, 4]|slice(3, 0)|list }}{{ [1, 2]|reverse|list }}{{ [1, 2]|first }}{{ [1, 2]|last }}{{ []|first is defined }}{{ {'a': 1}|list }}{{ {'a': 1, 'b': 2}|last }}{{ [1, 2]|join('-') }}{{ [1, none]|join }}"
                             "{{ messages|join(', ', attribute='role') }}{{ {'a': 1}|items|list }}{{ nope|items|list }}{{ [1, 2]|count }}", TURNS),
    "map": ("{{ messages|map(attribute='role')|join('/') }}{{ ['a', 'b']|map('upper')|list }}{{ [{'a': {'b': 1}}, {}]|map(attribute='a')|map(attribute='b', default='d')|first }}{{ [' a ', 'b ']|map('trim')|list }}{{ ['1', '2']|map('int')|sum }}{{ [1, 2]|map('string')|join }}{{ ['ab']|map('replace', 'a', 'z')|list }}{{ [[1, 2]]|map(attribute=0)|list }}{{ [{'x': 1}]|map(attribute='y', default=0)|list }}{{ []|map('nofilter')|list }}", TURNS),
    "select": ("{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages|selectattr('role', '==', 'user')|map(attribute='content')|list }}{{ messages|rejectattr('role', 'in', ['user', 'system'])|list|length }}{{ [1, 2, 3, 4]|select('odd')|list }}{{ [1, 2, 3]|reject('gt', 1)|list }}{{ [0, 1, '', 'a']|select|list }}{{ [0, 1]|reject|list }}"
               "{{ [{'a': 1}, {}]|selectattr('a')|list }}{{ [{'a': 1}, {}]|selectattr('a', 'defined')|list|length }}{{ [{'a': none}]|rejectattr('a', 'none')|list }}{{ [1, 2, 3]|select('divisibleby', 2)|list }}{{ [{'a': {'b': 2}}]|selectattr('a.b', 'eq', 2)|list|length }}{{ ['x']|select('string')|list }}{{ [1]|select('in', [1, 2])|first }}", TURNS),
    "generators": ("{% set g = [1, 2]|map('string') %}{{ 'T' if [1]|select('odd') }}{{ 'T' if []|select }}{{ g|join }}{{ g|join }}|{% set h = [1, 2, 3]|select %}{{ h|first }}{{ h|list }}{% set i = [1, 2]|map('string') %}{% for x in i %}{{ loop.length }}{{ x }}{{ loop.last }}{% endfor %}", HELLO),
    "generators have no length": ("{{ [1]|map('string')|length }}", HELLO),
    "groupby": ("{% for g in messages|groupby('role') %}{{ g.grouper }}:{{ g.list|length }};{% endfor %}{% for k, l in ['a', 'B', 'A']|map('string')|groupby(0) %}{{ k }}{{ l }}{% endfor %}{{ [{'a': 2}, {'a': 1}, {}]|groupby('a', default=0) }}", TURNS),
    "tests": ("{{ 1 is odd }}{{ 2 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ none is none }}{{ 1 is number }}{{ true is number }}{{ 1.0 is float }}{{ true is integer }}{{ 1 is integer }}{{ true is boolean }}{{ true is true }}{{ 1 is true }}{{ false is false }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is mapping }}"
              "{{ [] is sequence }}{{ 'a' is sequence }}{{ {} is sequence }}{{ 1 is sequence }}{{ [] is iterable }}{{ 1 is iterable }}{{ nope is iterable }}{{ 'A' is upper }}{{ 'a' is lower }}{{ 1 is lower }}{{ 1 is eq 1 }}{{ 1 is ne(2) }}{{ 1 is lt 2 }}{{ 2 is ge 2 }}{{ 'a' is in 'abc' }}{{ 1 is not in [1] }}{{ none is sameas none }}{{ 1 is sameas true }}{{ 'upper' is filter }}"
              "{{ 'x' is filter }}{{ 'odd' is test }}{{ range is callable }}{{ 1 is callable }}{{ nope is callable }}{{ 1 is not none }}{{ not 1 is none }}{{ 1 is defined and 2 is defined }}{{ messages is sequence and messages is not string }}{{ nope is sequence }}{{ (1,)|map('string') is sequence }}", HELLO),
    "methods of text": ("{{ 'a b  c'.split() }}{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ ' a b c '.split(none, 1) }}{{ ' a b c '.rsplit(maxsplit=1) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'a\nb\r\nc'.splitlines() }}{{ 'a\n'.splitlines(true) }}|{{ ' x '.strip() }}|{{ ' x '.lstrip() }}|{{ ' x '.rstrip() }}|{{ 'xyax'.strip('xy') }}{{ 'aab'.lstrip('a') }}{{ 'é1é'.strip('é') }}"
                        "|{{ 'abc'.startswith('a') }}{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.endswith('c') }}{{ 'abc'.startswith('b', 1) }}{{ 'abc'.endswith('b', 0, 2) }}{{ ''.startswith('') }}{{ 'a'.startswith('', 2) }}|{{ 'abcabc'.find('c') }}{{ 'abcabc'.rfind('c') }}{{ 'éabc'.find('c') }}{{ 'x'.find('y') }}{{ 'aXbX'.index('X', 2) }}{{ 'aaa'.count('a') }}{{ 'aaa'.count('') }}{{ 'aaaa'.count('aa', 1) }}"
                        "|{{ 'aab'.replace('a', 'x', 1) }}{{ 'ab'.replace('', '-') }}{{ 'aéb'.replace('', '-', 2) }}|{{ '-'.join(['a', 'b']) }}{{ ','.join('abc') }}|{{ 'a'.center(4, '*') }}{{ 'ab'.center(5, '*') }}{{ 'a'.ljust(3, '.') }}{{ 'a'.rjust(3) }}{{ '-5'.zfill(4) }}{{ '5'.zfill(3) }}|{{ 'a-b-c'.partition('-') }}{{ 'a-b-c'.rpartition('-') }}{{ 'abc'.partition('x') }}{{ 'abc'.rpartition('x') }}"
                        "|{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'a\tb'.expandtabs(4) }}|{{ 'aB'.swapcase() }}{{ 'they\\'re Bob'.title() }}{{ 'aBC d'.capitalize() }}|{{ 'a1'.isalnum() }}{{ 'a'.isalpha() }}{{ '1'.isdigit() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ ' '.isspace() }}{{ 'Ab'.istitle() }}{{ 'A'.isupper() }}{{ 'a1'.islower() }}{{ ''.isalpha() }}{{ 'é'.isascii() }}{{ 'a\x00'.isprintable() }}{{ ''.isprintable() }}", HELLO),
    "unicode case": ("{{ 'straße ǆ ŉ ﬁ ΑΣ ΑΣΑ Σ ΑΣ. İ ı ǅ ΐ'|upper }}|{{ 'STRASSE ΑΣ ΑΣΑ Σ ΑΣ. ΑΣ\u0301 İ Ǆ ΧΑΟΣ ΧΑΟΣΣ. Α.Σ ẞ'|lower }}|{{ 'ǆa ßx ΑΣ ﬁx'|title }}|{{ 'ǆa ΑΣ'.title() }}|{{ 'ﬁx ΑΣ'|capitalize }}|{{ 'ßa ΑΣ ǅ'.swapcase() }}|{{ 'ჰello ᲀ ა'|upper }}|{{ 'ⅷ ⓐ 𐐨 ա'|upper }}", HELLO),
    "unicode white space": ("[{{ '\u00a0\u2003\u3000\x1c\x1f\x85\u1680a\u200b\u2028\u205f'|trim }}][{{ '\u180e a \ufeff'.strip() }}][{{ 'a\u2003b\u3000c\x1dd'.split() }}][{{ 'a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\x1fh'.splitlines() }}]", HELLO),
    "methods of dicts and lists": ("{{ d.keys()|list }}{{ d.values()|list }}{{ d.items()|list }}{{ d.keys() }}{{ d.values() }}{{ d.items() }}{{ d.copy() }}{{ d.get('b') }}{{ [1, 2, 1].count(1) }}{{ [1, 2].index(2) }}{{ [1].copy() }}{{ (1, 2).index(2) }}{{ 'a' in d.keys() }}{{ d|length }}{{ 2 in d.values() }}{{ ('a', 1) in d.items() }}{{ d.items()|first }}{{ (5).bit_length() }}{{ (2.0).is_integer() }}",
                                   {"messages": HELLO, "d": {"a": 1, "c": [2]}}),
    "percent formats": ("{{ '%s %r %d %5d|%-5d|%05d|%+d|%x|%X|%#x|%o|%c|%c|%%' % ('a', 'b', 3, 4, 5, 6, 7, 255, 255, 255, 8, 'z', 65) }}{{ '%.2f|%8.3f|%e|%g|%G|%.0f|%#.0f' % (3.14159, 2.5, 12345.678, 0.0001, 1e20, 2.5, 2.5) }}{{ '%(a)s-%(b)d' % {'a': 1, 'b': 2.9} }}{{ '%s' % [1] }}{{ '%.2s' % 'abc' }}{{ '%*d' % (5, 3) }}{{ '%s' % none }}{{ '%5s|%-5s|' % ('é', 'b') }}{{ '%d' % true }}{{ '%a' % 'é' }}{{ '%i' % -3 }}{{ '% d' % 3 }}", HELLO),
    "brace formats": ("{{ '{} {}'.format(1, 'a') }}{{ '{1}{0}'.format('a', 'b') }}{{ '{x}'.format(x=2) }}{{ '{0[1]} {1[a]} {1.a}'.format([1, 2], {'a': 3}) }}{{ '{!r}{!s}'.format('a', 1) }}{{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+d}|{:,}|{:_}|{:x}|{:#X}|{:b}|{:o}|{:c}'.format('a', 'b', 'c', 'd', 42, 5, 1234567, 1234567, 255, 255, 5, 8, 65) }}"
                      "{{ '{:.2f}|{:8.3f}|{:e}|{:g}|{:.3g}|{:%}|{:.1%}|{:,.2f}|{:010.2f}|{:+.1f}|{:.3}|{:.1}|{}'.format(3.14159, 2.5, 12345.678, 0.0001, 1234.5, 0.25, 0.5, 1234567.891, -3.14159, 2.0, 3.14159, 100.0, 1.0) }}{{ '{{}}{}'.format(1) }}{{ '{:.2}|{:5}|{:<05}'.format('abc', 'é', 'a') }}{{ '{:{}}|'.format('a', 4) }}{{ '{}'.format(none) }}{{ '{:d}'.format(true) }}{{ '{}'.format([1]) }}{{ '{:08,}'.format(1234) }}{{ '{a}'.format_map({'a': 1}) }}", HELLO),
    "dynamic arguments": ("{% macro f(a, b, c=3) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(1, **{'b': 5, 'c': 6}) }}{{ f(*(1,), b=2) }}{{ dict(**{'x': 1}) }}{{ 'a'|default(*['z']) }}{{ range(*[1, 3])|list }}", HELLO),
    "type errors fail: length": ("{{ none|length }}", HELLO),
    "type errors fail: in": ("{{ 1 in 'a' }}", HELLO),
    "type errors fail: order": ("{{ 'a' < 1 }}", HELLO),
    "type errors fail: sum": ("{{ 'a' + 1 }}", HELLO),
    "type errors fail: keys": ("{{ {[1]: 2} }}", HELLO),
    "type errors fail: loop": ("{% for a in 5 %}{% endfor %}", HELLO),
    "value errors fail: unpack": ("{% for a, b in [(1, 2, 3)] %}{% endfor %}", HELLO),
    "division by zero fails": ("{{ 1 // 0 }}", HELLO),
    "range too large fails": ("{{ range(100001)|length }}", HELLO),
    "missing end is refused": ("{% for a in b %}", HELLO),
    "unknown tag is refused": ("{% foo %}", HELLO),
    "unbalanced is refused": ("{{ (1 }}", HELLO),
    "break outside is refused": ("{% break %}", HELLO),
    "loop target is refused": ("{% for loop in [1] %}{% endfor %}", HELLO),
    "constants are no targets": ("{% set true = 1 %}", HELLO),
    "nested blocks": ("{% if a %}1{% elif b %}{% if c %}2{% else %}3{% endif %}{% else %}4{% for x in [1] %}{% for y in [2] %}{{ x }}{{ y }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}{% endif %}", {"messages": HELLO, "b": True}),
    "print statement": ("{% print 1, 'a' %}{% print messages|length %}", HELLO),
    "think is cut": ("{% for m in messages %}{% set c = m.content %}{% if m.role == 'assistant' and '</think>' in c %}{% set c = c.split('</think>')[-1].lstrip('\n') %}{% endif %}<|{{ m.role }}|>{{ c }}\n{% endfor %}"
                     "{%- if add_generation_prompt %}<|assistant|>{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}", {"messages": TURNS, "enable_thinking": False}),
    "role rules": ("{% if messages[0]['role'] == 'system' %}{% set sys = messages[0]['content'] %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
                   "{{ '[INST] ' ~ (sys ~ '\n\n' if loop.first and sys is defined) ~ m.content ~ ' [/INST]' if m.role == 'user' else m.content + eos_token }}{% endfor %}", TURNS),
    "role rules fail": ("{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% endfor %}", [*HELLO, *HELLO]),
    "content blocks": ("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% elif m.content is iterable %}{% for p in m.content %}{% if p['type'] == 'text' %}{{ p['text'] | trim }}{% elif p.type == 'image' %}<img>{% endif %}{% endfor %}{% endif %}{% endfor %}",
                       [{"role": "user", "content": [{"type": "text", "text": " a "}, {"type": "image", "url": "u"}]}, {"role": "assistant", "content": "b"}]),
}


def result(source, request):
    request = request if isinstance(request, dict) else {"messages": request}
    try:
        chat._compile_jinja_template(source)
    except Exception as error:
        return {"refused": type(error).__name__}
    try:
        arguments = {**SPECIAL, "add_generation_prompt": not request.get("continue_final_message"), **request}
        messages = chat._normalize_chat_messages(arguments.pop("messages"))
        return {"text": chat.render_jinja_template(conversations=[messages], chat_template=source, **arguments)[0][0]}
    except Exception as error:
        found = {"failed": type(error).__name__}
        if "raise_exception" in source:
            found["message"] = str(error)
        return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="tests/data/templates/cases.json")
    out = pathlib.Path(parser.parse_args().out)
    out.parent.mkdir(parents=True, exist_ok=True)
    cases = [{"name": name, "source": source, "request": json.dumps(request, ensure_ascii=False), **result(source, request)} for name, (source, request) in CASES.items()]
    out.write_text(json.dumps(cases, ensure_ascii=False, indent=0) + "\n")
    print(len(cases), "cases,", out.stat().st_size, "bytes")
