"""The line of every value in a TOML text."""

from __future__ import annotations

import tomllib

from etl.contract.parsing.locate import line_of, lines_of

TEXT = '''\
# a comment with [brackets] and = signs
name = "a # b"        # not a comment inside
"quoted key" = 1
many = [
    "x",   # first

    { a = 1, b = [2, 3] },
]

[stream.fields]       # implied parent
one = { type = "int", "deep".er = { x = 1 } }
text = """
[not.a.table]
key = 1 \\"""
"""
raw = \'\'\'
[neither]\'\'\'
dotted.key.here = 2000-01-01T00:00:00Z

[[items]]
a = 1
[items.sub]
b = 2
[[items]]
a = 3
'''


def test_every_path_of_the_document_has_its_line():
    lines = lines_of(TEXT)
    expected = {
        ("name",): 2, ("quoted key",): 3, ("many",): 4, ("many", 0): 5, ("many", 1): 7, ("many", 1, "a"): 7,
        ("many", 1, "b", 1): 7, ("stream",): 10, ("stream", "fields"): 10, ("stream", "fields", "one"): 11,
        ("stream", "fields", "one", "deep", "er", "x"): 11, ("stream", "fields", "text"): 12,
        ("stream", "fields", "raw"): 16, ("stream", "fields", "dotted", "key", "here"): 18, ("items",): 20,
        ("items", 0): 20, ("items", 0, "a"): 21, ("items", 0, "sub"): 22, ("items", 0, "sub", "b"): 23,
        ("items", 1): 24, ("items", 1, "a"): 25,
    }  # fmt: skip
    assert {path: lines[path] for path in expected} == expected


def test_the_scanner_finds_exactly_the_paths_that_tomllib_does():
    def paths(value: object, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return {path, *(found for key, one in inside for found in paths(one, (*path, key)))}

    assert set(lines_of(TEXT)) == paths(tomllib.loads(TEXT)) - {()}


def test_a_path_that_is_absent_has_the_line_of_what_should_contain_it():
    lines = lines_of(TEXT)
    assert line_of(lines, ("stream", "fields", "two", "type")) == 10
    assert line_of(lines, ("items", 1, "b")) == 24
    assert line_of(lines, ("nothing",)) == 1


def test_lines_are_counted_whatever_ends_them():
    assert lines_of("a = 1\r\nb = 2\r\n")[("b",)] == 2
