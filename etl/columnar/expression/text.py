"""Texts: lower, upper, trim, length, substring, concat, like, rlike and their kin. Positions count characters, from 1.

Patterns must be constants: they are compiled once. Regular expressions are RE2's: no look-around, no back references.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from etl.columnar.expression import literals, logic, types
from etl.columnar.expression.compiler import Compiler, Handler
from etl.columnar.expression.node import Datum, Node, on_arrays

_SIMPLE: dict[type[exp.Expr], tuple[Callable[[Datum], Datum], pa.DataType | None]] = {
    exp.Lower: (pc.utf8_lower, None),
    exp.Upper: (pc.utf8_upper, None),
    exp.Length: (pc.utf8_length, pa.int32()),
    exp.Reverse: (pc.utf8_reverse, None),
}
_TRIM = {"LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim, "BOTH": pc.utf8_trim, "": pc.utf8_trim}


def text(compiler: Compiler, tree: exp.Expr, part: exp.Expr) -> Node:
    """A part that must be a text."""
    node = compiler.node(part)
    if pa.types.is_null(node.type):
        return compiler.cast(tree, node, pa.string())
    if not types.is_text(node.type):
        compiler.refuse(tree, f"`{part.sql(dialect='spark')}` is {node.type}, a text is needed")
    return node


def simple(compiler: Compiler, tree: exp.Func) -> Node:
    function, wanted = _SIMPLE[type(tree)]
    node = text(compiler, tree, tree.this)
    return compiler.total(
        wanted or node.type, [node], on_arrays(lambda array: function(array).cast(wanted or node.type))
    )


def trim(compiler: Compiler, tree: exp.Trim) -> Node:
    """Spaces, or the characters given."""
    characters = literals.text(compiler, tree, tree.expression) if tree.expression else " "
    function, node = _TRIM[str(tree.args.get("position") or "")], text(compiler, tree, tree.this)
    return compiler.total(node.type, [node], on_arrays(lambda array: function(array, characters=characters)))


def substring(compiler: Compiler, tree: exp.Substring) -> Node:
    """A negative start counts from the end; start 0 is the same as 1."""
    start = literals.integer(compiler, tree, tree.args.get("start"), 1)
    length = literals.integer(compiler, tree, tree.args.get("length"), 2**31 - 1)
    return _slice(compiler, tree, start - 1 if start > 0 else start, max(0, length))


def left(compiler: Compiler, tree: exp.Left) -> Node:
    return _slice(compiler, tree, 0, max(0, literals.integer(compiler, tree, tree.expression)))


def right(compiler: Compiler, tree: exp.Right) -> Node:
    length = max(0, literals.integer(compiler, tree, tree.expression))
    return _slice(compiler, tree, -length, length)


def _slice(compiler: Compiler, tree: exp.Func, start: int, length: int) -> Node:
    node = text(compiler, tree, tree.this)
    if start >= 0:
        stop = min(start + length, 2**31 - 1)
        cut = lambda array: pc.utf8_slice_codeunits(array, start, stop)  # noqa: E731
    elif length == 0:
        cut = lambda array: pc.utf8_slice_codeunits(array, 0, 0)  # noqa: E731
    else:
        cut = lambda array: _from_end(array, start, length)  # noqa: E731
    return compiler.total(node.type, [node], on_arrays(cut))


def _from_end(array: pa.Array, start: int, length: int) -> pa.Array:
    """A start before the text's first character takes from the length, as in Spark."""
    stop = start + length
    whole = pc.utf8_slice_codeunits(array, start, stop if stop < 0 else None)
    characters = pc.utf8_length(array)
    before = pc.less(characters, pa.scalar(-start, characters.type))
    if not pc.any(before).as_py() or stop >= 0:
        return whole
    return pc.if_else(before, pc.utf8_slice_codeunits(array, 0, stop), whole)


def concat(compiler: Compiler, tree: exp.Concat | exp.DPipe) -> Node:
    """NULL if any part is; numbers, dates and booleans become texts first."""
    parts = tree.expressions if isinstance(tree, exp.Concat) else [tree.this, tree.expression]
    nodes = [compiler.cast(part, compiler.node(part), pa.string()) for part in parts]
    separator = pa.scalar("", pa.string())
    join = on_arrays(lambda *data: pc.binary_join_element_wise(*data, separator, null_handling="emit_null"))
    return compiler.total(pa.string(), nodes, join)


def like(compiler: Compiler, tree: exp.Like | exp.ILike) -> Node:
    """`%` any text, `_` one character, a backslash takes the next character as it is."""
    pattern = literals.text(compiler, tree, tree.expression)
    regex = "(?s)^" + "".join(_like_parts(pattern)) + "$"
    found = _matches(compiler, tree, regex, ignore_case=isinstance(tree, exp.ILike))
    return logic.inverted(compiler, found) if tree.args.get("negate") else found


def _like_parts(pattern: str) -> list[str]:
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    special = {"%": ".*", "_": "."}
    return [special.get(token) or _quoted(token[-1]) for token in tokens]


def _quoted(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else f"\\x{ord(character):02x}"


def regexp(compiler: Compiler, tree: exp.RegexpLike) -> Node:
    found = _matches(compiler, tree, literals.text(compiler, tree, tree.expression), ignore_case=False)
    return logic.inverted(compiler, found) if tree.args.get("negate") else found


def _matches(compiler: Compiler, tree: exp.Binary, regex: str, *, ignore_case: bool) -> Node:
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        compiler.refuse(tree, f"{regex!r} is not a regular expression: {error}")
    node = text(compiler, tree, tree.this)
    found = on_arrays(lambda array: pc.match_substring_regex(array, regex, ignore_case=ignore_case))
    return compiler.total(pa.bool_(), [node], found)


def contains(compiler: Compiler, tree: exp.Func) -> Node:
    functions = {exp.StartsWith: pc.starts_with, exp.EndsWith: pc.ends_with}
    function = functions.get(type(tree), pc.match_substring)
    wanted, node = literals.text(compiler, tree, tree.expression), text(compiler, tree, tree.this)
    return compiler.total(pa.bool_(), [node], on_arrays(lambda array: function(array, wanted)))


HANDLERS: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_SIMPLE, simple), **dict.fromkeys((exp.Contains, exp.StartsWith, exp.EndsWith), contains),
    exp.Trim: trim, exp.Substring: substring, exp.Left: left, exp.Right: right, exp.Concat: concat, exp.DPipe: concat,
    exp.Like: like, exp.ILike: like, exp.RegexpLike: regexp,
}  # fmt: skip
