"""Inequalities between two streams as `a·x + b·y + c <= 0`, x of the left stream, y of the right.

    l.amount between r.amount * 0.99 and r.amount * 1.01
        -1·l.amount + 0.99·r.amount + 0 <= 0     and     1·l.amount - 1.01·r.amount + 0 <= 0
    abs(l.k - r.k) <= 1
        1·l.k - 1·r.k - 1 <= 0                   and    -1·l.k + 1·r.k - 1 <= 0

From this form the range of one side's values can be computed from the other side's value, as a sorted index needs it.
Terms that mix both streams, or several terms of one stream, are not of this form: they are left to the residual.
Numbers are exact fractions; an interval counts microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from etl.correlate.model import Side

SideOf = Callable[[exp.Expr], Side | None]  # None: both sides, or neither
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_MICROSECONDS = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000, "WEEK": 604_800_000_000,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Inequality:
    """a·x + b·y + c <= 0, or < 0 if strict."""

    a: Fraction
    x: exp.Expr
    b: Fraction
    y: exp.Expr
    c: Fraction
    strict: bool

    @property
    def bases(self) -> tuple[str, str]:
        return self.x.sql(dialect="spark"), self.y.sql(dialect="spark")


def inequalities(tree: exp.Expr, side_of: SideOf) -> list[Inequality]:
    """The inequalities of a conjunct; empty if it is not of this form."""
    parts = [_inequality(low, high, strict, side_of) for low, high, strict in _ordered(_unwrapped(tree))]
    found = [part for part in parts if part is not None]
    return found if len(found) == len(parts) else []


def _unwrapped(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _ordered(tree: exp.Expr) -> list[tuple[exp.Expr, exp.Expr, bool]]:
    """(low, high, strict): low <= high."""
    if isinstance(tree, exp.Between):
        value = tree.this
        return [(tree.args["low"], value, False), (value, tree.args["high"], False)]
    if not isinstance(tree, exp.LT | exp.LTE | exp.GT | exp.GTE):
        return []
    low, high = _unwrapped(tree.this), _unwrapped(tree.expression)
    if type(tree) in _FLIPPED:
        low, high = high, low
    strict = isinstance(tree, exp.LT | exp.GT)
    if isinstance(low, exp.Abs):  # |d| <= h is d <= h and -d <= h
        return [(low.this, high, strict), (exp.Neg(this=low.this), high, strict)]
    return [(low, high, strict)]


def _inequality(low: exp.Expr, high: exp.Expr, strict: bool, side_of: SideOf) -> Inequality | None:
    constant = Fraction(0)
    bases: dict[Side, list[tuple[Fraction, exp.Expr]]] = {"left": [], "right": []}
    for factor, term in [*_terms(low, Fraction(1)), *_terms(high, Fraction(-1))]:
        if term is None:
            constant += factor
            continue
        side = side_of(term)
        if side is None:
            return None
        bases[side].append((factor, term))
    if len(bases["left"]) != 1 or len(bases["right"]) != 1:
        return None
    (a, x), (b, y) = bases["left"][0], bases["right"][0]
    return Inequality(a, x, b, y, constant, strict) if a and b else None


def _terms(tree: exp.Expr, factor: Fraction) -> list[tuple[Fraction, exp.Expr | None]]:
    """Summands with their factors; None stands for the constant 1."""
    tree = _unwrapped(tree)
    number = constant(tree)
    if number is not None:
        return [(factor * number, None)]
    if isinstance(tree, exp.Neg):
        return _terms(tree.this, -factor)
    if isinstance(tree, exp.Add | exp.Sub):
        sign = -factor if isinstance(tree, exp.Sub) else factor
        return [*_terms(tree.this, factor), *_terms(tree.expression, sign)]
    if isinstance(tree, exp.Mul | exp.Div):
        left, right = constant(tree.this), constant(tree.expression)
        if isinstance(tree, exp.Mul) and left is not None:
            return _terms(tree.expression, factor * left)
        if right:
            return _terms(tree.this, factor / right if isinstance(tree, exp.Div) else factor * right)
    return [(factor, tree)]


def constant(tree: exp.Expr) -> Fraction | None:
    """The value of a number or of an interval of fixed length."""
    tree = _unwrapped(tree)
    if isinstance(tree, exp.Neg):
        inner = constant(tree.this)
        return None if inner is None else -inner
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return Fraction(tree.this)
    if isinstance(tree, exp.Interval) and isinstance(tree.this, exp.Literal):
        unit = _MICROSECONDS.get(tree.text("unit").upper().removesuffix("S"))
        return None if unit is None else Fraction(tree.this.this) * unit
    return None
