"""Numbers: + - * / div % abs round floor ceil, and negation.

A result that does not fit (int64, 38 digits) and a division by zero are NULL: one bad row must not stop a batch, and a
rule over NULL does not hold (ADR 30). `/` gives a decimal for decimals and a double for anything else; `div` cuts off
towards zero; `%` has the sign of the dividend.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from etl.columnar import decimals
from etl.columnar.expression import literals, temporal, types
from etl.columnar.expression.compiler import Compiler, Handler
from etl.columnar.expression.node import Datum, Node, on_arrays

_CHECKED = {exp.Add: pc.add_checked, exp.Sub: pc.subtract_checked, exp.Mul: pc.multiply_checked}
_EXACT: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
_FLOAT = {exp.Add: pc.add, exp.Sub: pc.subtract, exp.Mul: pc.multiply}
_LOW, _HIGH = -(2**63), 2**63 - 1


def binary(compiler: Compiler, tree: exp.Binary) -> Node:
    left, right = compiler.node(tree.this), compiler.node(tree.expression)
    if isinstance(tree, exp.Add | exp.Sub) and temporal.concerns(left, right):
        return temporal.shift(compiler, tree, left, right)
    left, right = _numbers(compiler, tree, left, right)
    kind = types.numeric(left, right)
    if pa.types.is_decimal(kind):
        return _decimal(compiler, tree, left, right)
    if isinstance(tree, exp.Div) or pa.types.is_floating(kind):
        return _floating(compiler, tree, left, right)
    return _integer(compiler, tree, left, right)


def _numbers(compiler: Compiler, tree: exp.Expr, *nodes: Node) -> list[Node]:
    """The nodes as numbers; NULL is an integer."""
    numbers = [compiler.cast(tree, node, pa.int64()) if pa.types.is_null(node.type) else node for node in nodes]
    for node in numbers:
        if not types.is_number(node.type):
            compiler.refuse(tree, f"{node.type} is not a number")
    return numbers


def _integer(compiler: Compiler, tree: exp.Binary, left: Node, right: Node) -> Node:
    arguments = [compiler.cast(tree, node, pa.int64()) for node in (left, right)]
    if isinstance(tree, exp.IntDiv | exp.Mod):
        divide = _integer_quotient if isinstance(tree, exp.IntDiv) else _integer_remainder
        return compiler.fallible(tree, pa.int64(), arguments, on_arrays(divide))
    checked, exact = _CHECKED[type(tree)], _EXACT[type(tree)]

    def apply(a: Datum, b: Datum) -> Datum:
        try:
            return checked(a, b)
        except pa.ArrowInvalid:
            return on_arrays(lambda x, y: _exact_integers(exact, x, y))(a, b)

    return compiler.fallible(tree, pa.int64(), arguments, apply)


def _exact_integers(exact: Callable[[Any, Any], Any], a: pa.Array, b: pa.Array) -> pa.Array:
    """Once more with Python integers: NULL where the result is too large."""
    x, y, valid = _operands(a, b)
    wide = exact(x.astype(object), y.astype(object))
    fits = np.array([_LOW <= value <= _HIGH for value in wide], bool)
    return pa.array(np.where(fits, wide, 0).astype(np.int64), mask=~(fits & valid))


def _operands(a: pa.Array, b: pa.Array) -> tuple[Any, Any, Any]:
    valid = np.asarray(a.is_valid(), bool) & np.asarray(b.is_valid(), bool)
    return np.asarray(a.fill_null(0)), np.asarray(b.fill_null(0)), valid


def _integer_quotient(a: pa.Array, b: pa.Array) -> pa.Array:
    x, y, valid = _operands(a, b)
    valid &= (y != 0) & ~((x == _LOW) & (y == -1))
    y = np.where(valid, y, 1)
    quotient = x // y
    quotient += (quotient < 0) & (quotient * y != x)
    return pa.array(quotient, mask=~valid)


def _integer_remainder(a: pa.Array, b: pa.Array) -> pa.Array:
    x, y, valid = _operands(a, b)
    valid &= y != 0
    return pa.array(np.fmod(x, np.where(valid & (y != -1), y, 1)), mask=~valid)


def _floating(compiler: Compiler, tree: exp.Binary, left: Node, right: Node) -> Node:
    arguments = [compiler.cast(tree, node, pa.float64()) for node in (left, right)]
    if type(tree) in _FLOAT:
        return compiler.total(pa.float64(), arguments, _FLOAT[type(tree)])
    whole = isinstance(tree, exp.IntDiv)

    def apply(a: pa.Array, b: pa.Array) -> pa.Array:
        x, y, valid = _operands(a, b)
        valid &= y != 0
        y = np.where(valid, y, 1.0)
        return pa.array(np.fmod(x, y) if isinstance(tree, exp.Mod) else x / y, mask=~valid)

    quotient = compiler.fallible(tree, pa.float64(), arguments, on_arrays(apply))
    return compiler.cast(tree, quotient, pa.int64()) if whole else quotient


def _decimal(compiler: Compiler, tree: exp.Binary, left: Node, right: Node) -> Node:
    a, b = types.as_decimal(left), types.as_decimal(right)
    if isinstance(tree, exp.IntDiv):
        return compiler.cast(tree, _exact(compiler, tree, left, right, _truncated, pa.decimal128(38, 0)), pa.int64())
    if isinstance(tree, exp.Div):
        wanted = decimals.quotient_type(a, b)
        return _exact(compiler, tree, left, right, lambda x, y: decimals.divide(x, y, wanted.scale), wanted)
    kinds = {exp.Mul: decimals.product_type, exp.Mod: decimals.remainder_type}
    return _exact(compiler, tree, left, right, _DECIMAL[type(tree)], kinds.get(type(tree), decimals.sum_type)(a, b))


def _subtract(a: decimals.Unscaled, b: decimals.Unscaled) -> decimals.Unscaled:
    return decimals.add(a, decimals.negate(b))


def _truncated(a: decimals.Unscaled, b: decimals.Unscaled) -> decimals.Unscaled:
    """The whole part of a quotient: what is left without the remainder, divided."""
    return decimals.divide(_subtract(a, decimals.remainder(a, b)), b, 0)


_DECIMAL: dict[type[exp.Expr], Callable[[decimals.Unscaled, decimals.Unscaled], decimals.Unscaled]] = {
    exp.Add: decimals.add,
    exp.Sub: _subtract,
    exp.Mul: decimals.multiply,
    exp.Mod: decimals.remainder,
}


def _exact(
    compiler: Compiler,
    tree: exp.Expr,
    left: Node,
    right: Node,
    compute: Callable[[decimals.Unscaled, decimals.Unscaled], decimals.Unscaled],
    wanted: pa.DataType,
) -> Node:
    def apply(a: pa.Array, b: pa.Array) -> pa.Array:
        return decimals.to_arrow(compute(decimals.unscaled(a), decimals.unscaled(b)), wanted)

    return compiler.fallible(tree, wanted, [left, right], on_arrays(apply))


def negate(compiler: Compiler, tree: exp.Neg) -> Node:
    (node,) = _numbers(compiler, tree, compiler.node(tree.this))
    if node.literal is not None and isinstance(node.literal.value, int | float | Decimal):
        return literals.number(-node.literal.value)  # a literal with its sign is a literal
    return _unary(compiler, tree, node, decimals.negate, pc.negate_checked, pc.negate)


def absolute(compiler: Compiler, tree: exp.Abs) -> Node:
    node = compiler.node(tree.this)
    if pa.types.is_duration(node.type):
        return compiler.total(node.type, [node], lambda a: pc.abs(a.cast(pa.int64())).cast(node.type))
    (node,) = _numbers(compiler, tree, node)
    return _unary(compiler, tree, node, decimals.absolute, pc.abs_checked, pc.abs)


def _unary(
    compiler: Compiler,
    tree: exp.Expr,
    node: Node,
    exact: Callable[[decimals.Unscaled], decimals.Unscaled],
    checked: Callable[[Datum], Datum],
    floating: Callable[[Datum], Datum],
) -> Node:
    if pa.types.is_decimal(node.type):
        return _by_digits(compiler, tree, node, exact, node.type)
    if pa.types.is_floating(node.type):
        return compiler.total(node.type, [node], floating)
    wide = compiler.cast(tree, node, pa.int64())

    def apply(a: Datum) -> Datum:
        lowest = pc.equal(a, pa.scalar(_LOW))
        return checked(pc.if_else(lowest, pa.scalar(None, pa.int64()), a))

    return compiler.fallible(tree, pa.int64(), [wide], apply)


def _by_digits(
    compiler: Compiler,
    tree: exp.Expr,
    node: Node,
    exact: Callable[[decimals.Unscaled], decimals.Unscaled],
    wanted: pa.DataType,
) -> Node:
    def apply(a: pa.Array) -> pa.Array:
        return decimals.to_arrow(exact(decimals.unscaled(a)), wanted)

    return compiler.fallible(tree, wanted, [node], on_arrays(apply))


def rounded(compiler: Compiler, tree: exp.Round) -> Node:
    """Half up. Digits after the point must be a constant, for the type depends on them."""
    (node,) = _numbers(compiler, tree, compiler.node(tree.this))
    digits = literals.integer(compiler, tree, tree.args.get("decimals"))
    if pa.types.is_integer(node.type) and digits >= 0:
        return node
    if pa.types.is_floating(node.type):
        double = compiler.cast(tree, node, pa.float64())
        half_up = lambda a: pc.round(a, digits, round_mode="half_towards_infinity")  # noqa: E731
        return compiler.total(pa.float64(), [double], half_up)
    given = types.as_decimal(node)
    scale = max(0, min(digits, given.scale))
    wanted = decimals.bounded(given.precision - given.scale + scale + (scale < given.scale), scale)
    exact = _by_digits(compiler, tree, node, lambda a: _round_at(a, digits), wanted)
    return exact if pa.types.is_decimal(node.type) else compiler.cast(tree, exact, pa.int64())


def _round_at(a: decimals.Unscaled, digits: int) -> decimals.Unscaled:
    rounded_ = decimals.rescale(a, min(digits, a.scale))
    return decimals.rescale(rounded_, max(0, rounded_.scale))


def whole(compiler: Compiler, tree: exp.Floor | exp.Ceil) -> Node:
    """bigint for floats and integers, a decimal without fraction for decimals."""
    (node,) = _numbers(compiler, tree, compiler.node(tree.this))
    if tree.args.get("decimals") is not None:
        compiler.refuse(tree, "floor() and ceil() take one argument")
    if pa.types.is_integer(node.type):
        return compiler.cast(tree, node, pa.int64())
    up = isinstance(tree, exp.Ceil)
    if pa.types.is_decimal(node.type):
        wanted = decimals.bounded(node.type.precision - node.type.scale + 1, 0)
        return _by_digits(compiler, tree, node, decimals.ceiling if up else decimals.floor, wanted)
    floats = compiler.total(node.type, [node], pc.ceil if up else pc.floor)
    return compiler.cast(tree, floats, pa.int64())


HANDLERS: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod), binary),
    exp.Neg: negate, exp.Abs: absolute, exp.Round: rounded, exp.Floor: whole, exp.Ceil: whole,
}  # fmt: skip
