"""WHERE and ON as values: equalities between streams, and per stream the alternatives of column conditions.

A condition is brought into disjunctive form: alternatives (OR) of column conditions (AND), negation pushed to the
leaves, where it is the complement of a set of values. Conditions on one column merge into one set, so `a = 1 or a =
2` is one alternative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
from sqlglot import exp

from etl.correlate.adhoc.query import values
from etl.correlate.adhoc.query.domain import constant, domain_of
from etl.correlate.adhoc.query.model import Alternative, ColumnOf
from etl.correlate.adhoc.query.place import Scope, refuse
from etl.correlate.adhoc.query.values import ValueSet

MAX_ALTERNATIVES = 32
_LEAST, _MOST = -(2**63), 2**63 - 1  # whole numbers are compared as int64
Equality = tuple[ColumnOf, ColumnOf, exp.Expr]
Compare = Callable[[Any], ValueSet]

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ,
}  # fmt: skip


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that AND joins at the top."""
    inner = node.unnest()
    if isinstance(inner, exp.And):
        yield from conjuncts(inner.this)
        yield from conjuncts(inner.expression)
    else:
        yield inner


def split(condition: exp.Expr, scope: Scope) -> tuple[list[Equality], dict[str, list[Alternative]]]:
    """A whole condition as equalities between streams and selections of single streams."""
    equalities: list[Equality] = []
    selections: dict[str, list[Alternative]] = {}
    for each in conjuncts(condition):
        streams = {scope.resolve(column).stream for column in each.find_all(exp.Column)}
        if isinstance(each, exp.EQ) and len(streams) == 2 and _is_column(each.this) and _is_column(each.expression):
            equalities.append((scope.resolve(each.this.unnest()), scope.resolve(each.expression.unnest()), each))
        elif len(streams) == 1:
            (stream,) = streams
            alternatives = _alternatives(each, scope, negated=False)
            selections[stream] = _both(selections.get(stream, [{}]), alternatives, each, scope)
        elif not streams:
            raise refuse(scope.sql, each, "a condition names no column of a stream")
        else:
            what = (
                "OR over several streams" if each.find(exp.Or) else "a comparison of streams other than column = column"
            )
            raise refuse(
                scope.sql, each, f"{what} cannot be shared; streams are joined by equalities, selected one by one"
            )
    return equalities, {name: found for name, found in selections.items() if {} not in found}


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node.unnest(), exp.Column)


def _alternatives(node: exp.Expr, scope: Scope, *, negated: bool) -> list[Alternative]:
    node = node.unnest()
    if isinstance(node, exp.Not):
        return _alternatives(node.this, scope, negated=not negated)
    if isinstance(node, exp.And | exp.Or):
        left = _alternatives(node.this, scope, negated=negated)
        right = _alternatives(node.expression, scope, negated=negated)
        both = isinstance(node, exp.And) != negated
        return _both(left, right, node, scope) if both else _either(left, right, node, scope)
    column, allowed = _leaf(node, scope)
    if negated:
        allowed = _negation(node, allowed)
    return [] if allowed.empty else [{column.column: allowed}]


def _negation(node: exp.Expr, allowed: ValueSet) -> ValueSet:
    if isinstance(node, exp.Is):
        return values.NOT_NULL if allowed.null else values.NULL_ONLY
    return allowed.complement()


def _both(left: list[Alternative], right: list[Alternative], node: exp.Expr, scope: Scope) -> list[Alternative]:
    found: list[Alternative] = []
    for one, other in product(left, right):
        merged = dict(one)
        for column, allowed in other.items():
            merged[column] = merged[column].intersection(allowed) if column in merged else allowed
        if not any(allowed.empty for allowed in merged.values()):
            found.append(merged)
    return _bounded(found, node, scope)


def _either(left: list[Alternative], right: list[Alternative], node: exp.Expr, scope: Scope) -> list[Alternative]:
    merged: dict[str, ValueSet] = {}
    rest: list[Alternative] = []
    for each in (*left, *right):
        if len(each) == 1:
            ((column, allowed),) = each.items()
            merged[column] = merged[column].union(allowed) if column in merged else allowed
        elif each not in rest:
            rest.append(each)
    return _bounded([{column: allowed} for column, allowed in merged.items()] + rest, node, scope)


def _bounded(found: list[Alternative], node: exp.Expr, scope: Scope) -> list[Alternative]:
    if len(found) > MAX_ALTERNATIVES:
        reason = (
            f"the condition has {len(found)} alternatives, {MAX_ALTERNATIVES} are allowed; write fewer ORs over columns"
        )
        raise refuse(scope.sql, node, reason)
    return found


def _leaf(node: exp.Expr, scope: Scope) -> tuple[ColumnOf, ValueSet]:
    """One comparison of a column with constants."""
    if isinstance(node, exp.Column):  # a boolean column by itself
        return _compare(exp.EQ, node, [exp.true()], node, scope)
    if isinstance(node, exp.Between) and _is_column(node.this):
        column, low = _compare(exp.GTE, node.this, [node.args["low"]], node, scope)
        return column, low.intersection(_compare(exp.LTE, node.this, [node.args["high"]], node, scope)[1])
    if isinstance(node, exp.In) and _is_column(node.this) and node.expressions:
        return _compare(exp.In, node.this, node.expressions, node, scope)
    if isinstance(node, exp.Is) and _is_column(node.this) and isinstance(node.expression, exp.Null):
        return scope.resolve(node.this.unnest()), values.NULL_ONLY
    if type(node) in _FLIPPED:
        if _is_column(node.this) and not node.expression.find(exp.Column):
            return _compare(type(node), node.this, [node.expression], node, scope)
        if _is_column(node.expression) and not node.this.find(exp.Column):
            return _compare(_FLIPPED[type(node)], node.expression, [node.this], node, scope)
    allowed = "=, <, <=, >, >=, <>, between, in, is null, and, or, not over columns and constants"
    raise refuse(scope.sql, node, f"the condition {node.sql('spark')!r} cannot be shared; allowed are {allowed}")


def _compare(
    operator: type[exp.Expr], side: exp.Expr, constants: list[exp.Expr], node: exp.Expr, scope: Scope
) -> tuple[ColumnOf, ValueSet]:
    name = side.unnest()
    assert isinstance(name, exp.Column), "only columns are compared"
    column = scope.resolve(name)
    kind = scope.type_of(column)
    if domain_of(kind) is None:
        raise refuse(scope.sql, side, f"column {column.column!r} is a {kind}, which cannot be compared")
    return column, values.union_of([_allowed(operator, _value(each, kind, column, node, scope)) for each in constants])


def _value(node: exp.Expr, kind: pa.DataType, column: ColumnOf, whole: exp.Expr, scope: Scope) -> Any:
    try:
        return constant(_literal(node), kind)
    except ValueError as error:
        place = node if next((n for n in node.walk() if "start" in n.meta), None) else whole
        raise refuse(scope.sql, place, f"{column.column!r} is a {kind}: {error}") from error


def _literal(node: exp.Expr) -> Any:
    node = node.unnest()
    if isinstance(node, exp.Neg):
        inner = _literal(node.this)
        if isinstance(inner, Decimal):
            return inner.copy_negate()  # exact for any number of digits, unlike -inner
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        return str(node.this.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else Decimal(str(node.this))
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    raise ValueError(f"{node.sql('spark')!r} is not a constant")


def _allowed(operator: type[exp.Expr], value: Any) -> ValueSet:
    """The set of values that `column operator value` selects. For integer columns a fraction is rounded accordingly."""
    down = up = value
    if isinstance(value, Decimal):
        if not _LEAST <= value <= _MOST:
            return _beyond(operator, above=value > 0)
        down, up = math.floor(value), math.ceil(value)
    whole = down == up
    if operator in (exp.EQ, exp.In):
        return values.at(down) if whole else values.NOTHING
    if operator is exp.NEQ:
        return values.at(down).complement() if whole else values.NOT_NULL
    if operator in (exp.LT, exp.LTE):
        return values.below(down, inclusive=operator is exp.LTE or not whole)
    return values.above(up, inclusive=operator is exp.GTE or not whole)


def _beyond(operator: type[exp.Expr], *, above: bool) -> ValueSet:
    """A comparison with a number out of the column's range: selects all non-NULL values, or none."""
    if operator in (exp.EQ, exp.In):
        return values.NOTHING
    everything = operator is exp.NEQ or (operator in (exp.LT, exp.LTE)) == above
    return values.NOT_NULL if everything else values.NOTHING
