"""Makes tests/golden/templates/expected.jsonl: what `jinja2` renders from the templates in that folder, or that it refuses.

usage: build/venv/bin/python tests/golden/make_templates.py

The first line holds the variables, each other one a case: the template's name (or its source), what to take of the variables, and
`output`, `raised` (the message of raise_exception) or `error` (true: any other error). All templates were written for these tests. The script fails if a feature of FEATURES is in none.

jinja2 is set up as the transformers library sets it up, but for two things. Its sandbox is SandboxedEnvironment: under
ImmutableSandboxedEnvironment `list.append` is an error, and published templates use it. And the library's filter `fromjson` does not
exist; here it is json.loads.
"""

import copy
import datetime
import itertools
import json
import pathlib
import re

import jinja2
import jinja2.ext
import jinja2.sandbox

FOLDER = pathlib.Path(__file__).with_name("templates")


class Raised(Exception):
    """What raise_exception raises."""


class GenerationBlock(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, jinja2.ext.loopcontrols]
    )

    def raise_exception(message):
        raise Raised(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.filters["fromjson"] = json.loads
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return env


# ---- Variables

SYSTEM = {"role": "system", "content": "  Be brief.\nSay <b>\"no\"</b> & don't.  "}
USER = {"role": "user", "content": "Hi! \U0001f600 \u4f60\u597d"}
ANSWER = {"role": "assistant", "content": "Hello."}
THOUGHT = {"role": "assistant", "content": "So: 4.", "reasoning_content": "\n2 + 2\nis <4>\n", "thinking": "2 + 2"}
INLINE_THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes </done>"}
ARGUMENTS = {
    "city": "K\u00f6ln \"Mitte\"", "days": 3, "factor": 1.0, "huge": 1e16, "tiny": 1.5e-7, "big": 9007199254740993, "max": 18446744073709551615,
    "negative": -5, "exact": True, "never": None, "list": [1, [2.5, "x"], {"y": []}], "object": {"a": {"b": "c"}}, "empty": {}, "text": "a\nb",
}
CALL = {
    "role": "assistant", "content": None,
    "tool_calls": [{"id": "call_00001", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}],
}
CALLS = {
    "role": "assistant", "content": "Let me look.", "reasoning_content": "Two calls.",
    "tool_calls": [
        {"id": "call_00002", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}},
        {"id": "call_00003", "type": "function", "function": {"name": "now", "arguments": {}}},
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_00001", "name": "weather", "content": "{\"degrees\": 21.0}"}
PARTS = {"role": "user", "content": [{"type": "text", "text": " Look: "}, {"type": "image"}, {"type": "text", "text": "what & where?"}]}
TOOLS = [
    {"type": "function", "function": {
        "name": "weather", "description": "The weather,\nby day.", "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "A city's name; \u00fc & <i>"},
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                "days": {"type": "integer", "default": 1},
                "where": {"type": "array", "items": {"type": "object", "properties": {
                    "lat": {"type": "number"}, "lon": {"type": ["number", "null"]},
                    "more": {"type": "array", "nullable": True, "items": {"type": "string"}}}, "required": ["lat"]}},
                "any": {"oneOf": [{"type": "string"}, {"type": "array"}]},
            },
            "required": ["city"],
        },
    }},
    {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}},
]
TREE = [{"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}, {"name": "d", "children": []}]}, {"name": "e"}]
NUMBERS = [0, -1, 1.0, 1e16, 123456789.125, 1e15, 1e-4, 1e-5, -0.0, 1e100, 2.5e-10, 9007199254740993, 18446744073709551615,
           -9223372036854775808, 0.1, 1 / 3, True, False]
TEXTS = ["", "it's", "\"q\"", "'\"", "back\\slash", "tab\tnew\nline\r\n", "\x00\x07\x1b\x7f\x85\xa0\xad", "\u200b\u2028\ufeff", "e\u0301",
         "\U0001f468\u200d\U0001f469", "\u4f60\u597d \u0645\u0631\u062d\u0628\u0627", "<a href='x'>&amp;</a>", "\U000e0001 \ue000", "\u01c6 \ufb01 \u00df"]
CONVERSATIONS = {
    "empty": [],
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, USER],
    "thoughts": [USER, THOUGHT, USER, INLINE_THOUGHT],
    "call": [SYSTEM, USER, CALL, RESULT],
    "calls": [USER, CALLS, RESULT, {**RESULT, "content": "12:00"}, THOUGHT],
    "parts": [PARTS, ANSWER, USER],
    "wrong": [USER, SYSTEM, {"role": "critic", "content": "Bad."}],
    "stray": [USER, RESULT],
    "odd": [USER, {"role": "assistant", "content": None}, {"role": "user", "content": [{"type": "audio"}]}],
}


BASE = {"documents": None, "add_generation_prompt": True, "tree": TREE, "bos_token": "<s>", "eos_token": "</s>"}
SETTINGS = [
    {},
    {"tools": TOOLS},
    {"enable_thinking": False, "thinking": False, "tools": None, "add_generation_prompt": False},
    {"enable_thinking": True, "thinking": True, "tools": TOOLS, "reasoning_effort": "high"},
    {"tools": TOOLS, "tools_in_user_message": False, "date_string": "1 May 2025", "builtin_tools": ["search", "python"],
     "model_identity": "You are X.", "reasoning_budget": 5, "enable_thinking": False},
    {"numbers": NUMBERS, "texts": TEXTS},
]


def cases():
    """Each conversation meets every template, with settings that take turns."""
    turns = itertools.cycle(range(len(SETTINGS) - 1))
    for name in sorted(path.stem for path in FOLDER.glob("*.jinja")):
        for conversation in CONVERSATIONS:
            for _ in range(2):
                yield {"template": name, "conversation": conversation, "setting": next(turns)}
    yield {"template": "values", "conversation": "empty", "setting": len(SETTINGS) - 1}
    for source in ERRORS + TRICKS:
        yield {"source": source, "conversation": "turns", "setting": 0}


# What jinja2 refuses, when it reads the template or when it renders it.
ERRORS = [
    "{{ raise_exception('said \u00fc') }}", "{% macro f() %}{{ raise_exception(5) }}{% endmacro %}{{ f() }}", "{{ a.b }}", "{{ a['b'] }}", "{{ a.b.c }}",
    "{{ messages[0].missing.x }}", "{{ messages[9].role }}", "{{ a() }}", "{{ a + 'x' }}", "{{ 'x' + a }}", "{{ 'x' + none }}", "{{ 'x' + 1 }}", "{{ 1 + 'x' }}",
    "{{ [1] + (2,) }}", "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ a < 1 }}", "{{ 'x' in none }}", "{{ 'x' in 5 }}", "{{ 1 in 'abc' }}", "{{ none in 'abc' }}",
    "{% for x in none %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in true %}{% endfor %}", "{% for a, b in [[1]] %}{% endfor %}",
    "{% for a, b in [1] %}{% endfor %}", "{{ none | length }}", "{{ 5 | length }}", "{{ none | list }}", "{{ none | join }}", "{{ none | items }}{{ none | items | list }}",
    "{{ 'x' | nothing }}", "{{ 1 is nothing }}", "{{ a | tojson }}", "{{ [a] | tojson }}", "{{ 'x' | fromjson }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}",
    "{{ 1.0 % 0 }}", "{{ [].pop() }}", "{{ [1].pop(5) }}", "{{ [1].index(2) }}", "{{ [].remove(1) }}", "{{ {}.pop('x') }}", "{{ 'a'.nothing() }}", "{{ [].nothing() }}", "{{ {}.nothing() }}",
    "{{ none.nothing() }}", "{{ (1, 2).append(3) }}", "{{ 'a'.split('') }}", "{{ 'a'.join([1]) }}", "{{ 'a'.index('b') }}", "{{ 'a'.startswith(['a']) }}",
    "{{ 'a'.startswith(none) }}", "{{ '%d' % 'x' }}", "{{ '%s %s' % 'x' }}", "{{ '%s' % (1, 2) }}", "{{ '%y' % 1 }}", "{{ '%' % 1 }}", "{{ {[1]: 2} }}",
    "{{ {'a': 1}[[1]].x }}", "{{ range(1000000) }}", "{{ range('a') }}", "{{ range(1, 2, 0) }}", "{{ [1][::0] }}", "{{ -'x' }}", "{{ -none }}", "{{ 'a' * 'b' }}", "{{ 'a' - 'b' }}",
    "{{ {} + {} }}", "{{ [3, 'a'] | sort }}", "{{ 'x' | abs }}", "{{ [1] | map('nothing') | list }}", "{{ [1] | select('nothing') | list }}",
    "{{ (1 | string).x.y }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=1) }}",
    "{% macro f(a) %}{% endmacro %}{{ f(1, a=1) }}", "{% set x.y = 1 %}", "{% set m = {} %}{% set m.y = 1 %}", "{% set ns = namespace() %}{{ ns.a.b }}",
    "{% if %}x{% endif %}", "{% if true %}", "{% endif %}", "{% for x in [1] %}", "{% for %}{% endfor %}", "{% for x [1] %}{% endfor %}", "{% else %}", "{% nothing %}",
    "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{{ [1, 2 }}", "{{ {'a' 1} }}", "{{ 'unclosed }}", "{{ a", "{% if true", "{# open", "{% raw %}open", "{{ a b }}", "{{ 1 2 }}",
    "{{ a. }}", "{{ a[ }}", "{{ a[] }}", "{{ a | }}", "{{ a is }}", "{{ a is not }}", "{{ a if }}", "{{ not }}", "{{ a ? b }}", "{{ a && b }}", "{{ a = 1 }}", "{{ $ }}", "{% set %}",
    "{% set 1 = 2 %}", "{% set x %}", "{% macro %}{% endmacro %}", "{% macro f %}{% endmacro %}", "{% call 5 %}{% endcall %}", "{% filter %}{% endfilter %}", "{% break %}", "{{ 1 is string is string }}",
    "{% if a %}{% endfor %}", "{{ messages | first.role }}", "{% set x = %}", "{% for x in [1] %}{% endfor", "{{ 'a' 5 }}", "{{ namespace(5).x }}", "{{ dict([1]) }}", "{{ [1, 2] | batch }}",
]

# Small things that larger templates would hide.
TRICKS = [
    "", "\n", "\n\n", "a\n", "a\n\n", "{{ 'a' }}\n", "{% if true %}\n{% endif %}\n", "{# c #}", "{# c #}\nx", "  {# c #}  \nx", "x {# c #}\ny", "{%- if true %} a {%- endif %}", "{{ 1 }}\n{{ 2 }}",
    " {%+ if true %} a{% endif %}", "{% if true +%}\na{% endif %}", "{% if true -%}\n\n a{% endif %}", "a\n  {% if true %}b{% endif %}  \n c", "a\n \t{% if true %} \nb{% endif %}", "{{ documents }}",
    "{{ '{{' }}{{ '}}' }}", "{% raw %}{{ x }}{% endraw %}", "{% raw %}\n{% endraw %}\n", "  {% raw %}  {% endraw %}  ", "{%- raw %} a {% endraw -%} b", "{% raw -%}  a  {%- endraw %}", "{{ '%}' }}{% if '%}' == \"%}\" %}y{% endif %}",
    "{{ {'a': '}}'} }}", "{{ \"'\" }}{{ '\"' }}", "{{ '\\\\' }}", "a{b}c{ d } {{ '{' }}{% if true %}{{% endif %}", "{ {- 1 }", "{{ 1 -}}\n\n2", "\t {{- 1 }}", "{{ [1,2,3][1:][0] }}", "{{ messages[0]['role'][0:3] }}",
    "{{ messages[0].content[:5] ~ '...' }}", "{{ (messages | last).role }}", "{{ messages | map(attribute='role') | join(',') }}", "{{ messages is string }}{{ messages is iterable }}", "{{ 'a' if messages else 'b' }}",
    "{% set ns = namespace(x=[]) %}{% for m in messages %}{% set _ = ns.x.append(m.role) %}{% endfor %}{{ ns.x }}", "{{ messages[0].items() | list | length }}", "{{ {'a': 1}.get('b') is none }}", "{{ a }}{{ a | default('x') }}{{ a is defined }}",
    "{{ messages[10] is defined }}{{ messages[0].zzz is defined }}", "{{ ''.x is defined }}{{ none.x is defined }}{{ (5).x is defined }}", "{{ 5 is defined }}", "{% if a is defined and a.b %}x{% endif %}y", "{{ [1, 2] | string }}{{ {'a': none} | string }}",
    "{% for i in [3, 2] %}{% for j in range(i) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }}{% endfor %}{% endfor %}", "{% for i in 'ab' %}{% set x = loop.index %}{% for j in 'cd' %}{{ x }}{{ loop.index }}{% endfor %}{% endfor %}",
    "{% macro f(x='d') %}{{ x }}{% endmacro %}{{ f() }}{{ f(none) }}{{ f('') }}", "{{ [[1, 2], [3]] | map('length') | list }}", "{{ 'A' | lower ~ 'b' | upper }}", "{{ '1' ~ 2 + 3 }}", "{{ true ~ false }}", "{{ 3 if false }}|", "{{ 0.1 ~ '' }}{{ 100.0 ~ '' }}",
    "{{ messages[-1:] | length }}{{ messages[:-1] | length }}{{ messages[-99:] | length }}", "{% if 'x' is in('xyz') %}1{% endif %}", "{{ 1 in [1] == true }}", "{{ 'a' ~ ('b' if true else 'c') ~ 'd' }}", "{{ ('a', 'b')[1] }}{{ ['a'][0] }}{{ {'k': 'v'}['k'] }}",
    "{{ -1 ** 2 }}{{ 2 ** 2 ** 3 }}{{ -2 | abs }}{{ 5 - -3 }}", "{{ not a }}{{ not a is defined }}{{ not (1 == 2) }}", "{% set a = [1] %}{% set b = a %}{% set _ = b.append(2) %}{{ a }}", "{{ [none, true, 1.50, 'x'] }}", "{{ 'a\\tb' | tojson }}",
]

# ---- Coverage: every feature of the survey of published templates, as a pattern that some template has to match.

FEATURES = {
    "for": r"{%-? for \w+ in", "for, unpacking": r"for \w+, \w+ in", "for, filtered": r"for [^%]* in [^%]* if ", "for, else": r"{%-? else -?%}.{0,40}{%-? endfor",
    "for, recursive": r" recursive %}.*loop\(", "if, elif, else": r"elif .*else", "set": r"{%-? set \w+ =", "set, block": r"{%-? set \w+ -?%}", "set, filtered block": r"{% set \w+ \|",
    "set, tuple": r"set \w+, \w+ =", "macro": r"macro \w+\(", "macro, defaults": r"macro \w+\([^)]*=", "macro, keywords": r"xml\('function', [^)]*skip=", "macro, recursion": r"fact\(n - 1\)",
    "macro in an expression": r"\+ ts\(", "call block": r"{% call wrap", "call block, arguments": r"{% call\(", "break": r"{%-? break", "continue": r"{%-? continue", "comment": r"{#", "generation": r"{% generation",
    "filter block": r"{% filter", "with": r"{% with", "raw": r"{% raw", "namespace": r"namespace\(", "namespace, several": r"namespace\(.*namespace\(", "namespace, list": r"namespace\([^)]*\[\]", "namespace, bool": r"namespace\([^)]*=false",
    "namespace, assignment": r"set \w+\.\w+ =", "range, backwards": r"range\([^)]*-1\)", "conditional": r" if [^%]* else ", "conditional without else": r"{{[^}]* if [^}e]*}}", "concatenation": r" ~ ", "list + list": r"\+ \[",
    "text * number": r"' \* ", "//": r" // ", "%": r" % ", "in": r" in \[", "not in": r" not in ", "in a map": r"'tool_calls' in ", "slice [1:]": r"\[1:\]", "slice [:-1]": r"\[:-1\]", "slice [::-1]": r"\[::-1\]", "slice [-9:]": r"\[-9:\]",
    "negative index": r"\[-1\]", "attribute": r"turn\.role", "item": r"turn\['role'\]", "list": r"= \[", "tuple": r"in \('", "map": r"{'a': ", "method of a filter's result": r"\| first\)\.upper\(\)",
    **{f"whitespace control: {tag}": rf"{{%- {tag}[^%]*-%}}" for tag in (
        "for", "endfor", "if", "elif", "else", "endif", "set", "endset", "macro", "endmacro", "generation", "endgeneration", "raw", "endraw", "break", "continue")},
    "whitespace control: output": r"{{- .*-}}", "whitespace control: comment": r"{#-.*-#}", "whitespace control: call": r"{% call [^%]*-%}.*{%- endcall",
    **{f"loop.{name}": rf"loop\.{name}\b" for name in ("first", "last", "index", "index0", "previtem", "nextitem", "length", "revindex")},
    **{f"filter {name}": rf"\| ?{name}\b" for name in (
        "tojson", "trim", "length", "default", "string", "safe", "items", "dictsort", "upper", "lower", "list", "last", "join", "replace", "map", "selectattr",
        "fromjson", "first", "count", "title", "capitalize", "rejectattr", "select", "reject", "unique", "sort", "reverse", "int", "float", "abs", "indent")},
    "tojson(indent)": r"tojson\(indent=4\)", "tojson(ensure_ascii)": r"tojson\(ensure_ascii=False\)", "tojson(separators)": r"tojson\(separators", "tojson(sort_keys)": r"sort_keys=True",
    "default(.., true)": r"default\([^)]*, true\)", "map(attribute)": r"map\(attribute=", "map(filter)": r"map\('upper'\)", "selectattr(.., equalto, ..)": r"selectattr\('role', 'equalto', 'user'\)",
    **{f"test {name}": rf"is (not )?{name}\b" for name in (
        "defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "boolean", "number", "true", "false", "equalto", "integer", "eq", "in")},
    **{f"method {name}": rf"\.{name}\(" for name in (
        "split", "strip", "lstrip", "rstrip", "startswith", "endswith", "replace", "upper", "join", "items", "get", "append", "pop", "keys", "values", "rsplit", "lower", "title", "find", "insert")},
    "split(sep, max)": r"split\('[^']*', 1\)", "strip(chars)": r"strip\('", "get(key, default)": r"\.get\('[^']*', ", "set _ = append": r"set _ = \w+\.append", "pop(0)": r"pop\(0\)",
    "raise_exception": r"raise_exception\(", "strftime_now": r"strftime_now\(", "dict": r"dict\(",
}


def check_coverage():
    sources = [path.read_text() for path in FOLDER.glob("*.jinja")]
    missing = [feature for feature, pattern in FEATURES.items() if not any(re.search(pattern, text, re.DOTALL) for text in sources)]
    assert not missing, f"in no template: {missing}"


def expected(env, case):
    source = case["source"] if "source" in case else (FOLDER / f"{case['template']}.jinja").read_bytes().decode()
    variables = copy.deepcopy({**BASE, **SETTINGS[case["setting"]], "messages": CONVERSATIONS[case["conversation"]]})
    try:
        return {"output": env.from_string(source).render(**variables)}
    except Raised as error:
        return {"raised": str(error)}
    except (jinja2.TemplateError, SyntaxError, TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError, OverflowError):
        return {"error": True}


def main():
    check_coverage()
    env = environment()
    count = {}
    with (FOLDER / "expected.jsonl").open("w") as out:
        out.write(json.dumps({"base": BASE, "conversations": CONVERSATIONS, "settings": SETTINGS}, ensure_ascii=False) + "\n")
        for case in cases():
            result = expected(env, case)
            count[next(iter(result))] = count.get(next(iter(result)), 0) + 1
            out.write(json.dumps({**case, **result}, ensure_ascii=False) + "\n")
    print(count)


if __name__ == "__main__":
    main()
