"""The join condition of two streams, decomposed for routing, indexing and checking.

    conjuncts over both streams
        equality of a left and a right expression   ──► key          routed by, looked up in hash sub-indexes
        inequality of the two event times           ──► window
        inequality of one expression of either side ──► band         looked up in sorted sub-indexes
        anything else                               ──► residual     evaluated on candidates, on the rows themselves

A key of text is a fingerprint and a band of floats has rounded bounds: there the conjunct stays in the residual as
well, so results are always exactly those of the SQL (ADR 32).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from etl.columnar.expression import Expression, common_type, compile_tree
from etl.columnar.expression import types as sql_types
from etl.correlate.index.runs import Layout
from etl.correlate.model import Side, Window
from etl.correlate.query.affine import Inequality, inequalities

Encoding = Literal["integer", "decimal", "moment", "float"]


@dataclass(frozen=True, slots=True)
class Key:
    """left = right, both as one type."""

    left: Expression
    right: Expression
    type: pa.DataType

    @property
    def integral(self) -> bool:
        """Whether 64 bits hold every value."""
        kind = self.type
        if pa.types.is_decimal(kind):
            return bool(kind.precision <= 18)
        return not (sql_types.is_text(kind) or pa.types.is_binary(kind) or pa.types.is_uint64(kind))


@dataclass(frozen=True, slots=True)
class Bound:
    """The other side's value is <= (upper) or >= factor · own value + offset, in encoded units."""

    upper: bool
    factor: Fraction
    offset: Fraction
    strict: bool


@dataclass(frozen=True, slots=True)
class BandSide:
    value: Expression
    bounds: tuple[Bound, ...]  # on the *other* side's value


@dataclass(frozen=True, slots=True)
class Band:
    left: BandSide
    right: BandSide
    encoding: Encoding
    type: pa.DataType  # both values as this

    def side(self, side: Side) -> BandSide:
        return self.left if side == "left" else self.right


@dataclass(frozen=True, slots=True)
class Condition:
    keys: tuple[Key, ...]
    band: Band | None
    window: Window
    residual: Expression | None
    sql: str

    @property
    def layout(self) -> Layout:
        """The kind of sub-index for this condition."""
        if self.keys:
            return "hash"
        return "sorted" if self.band is not None else "block"

    @property
    def exact_keys(self) -> bool:
        return len(self.keys) <= 2 and all(key.integral for key in self.keys)


@dataclass(frozen=True, slots=True)
class Sides:
    """Which columns belong to which side of a join, and which of them is a side's event time."""

    schema: pa.Schema  # dotted columns of both sides
    left: frozenset[str]
    right: frozenset[str]
    event_times: Mapping[Side, str]
    timezone: str = "UTC"


def condition(conjuncts: Sequence[exp.Expr], sql: str, sides: Sides, within: Window) -> Condition:
    """Decompose conjuncts over both sides; `sql` is their source text."""
    return _Analysis(sql, sides).condition(conjuncts, within)


class _Analysis:
    def __init__(self, sql: str, sides: Sides) -> None:
        self._sql, self._sides = sql, sides

    def condition(self, conjuncts: Sequence[exp.Expr], within: Window) -> Condition:
        keys: list[Key] = []
        window, residual, ranges = within, [], []
        for conjunct in conjuncts:
            key = self._key(conjunct)
            found = inequalities(conjunct, self._side_of) if key is None else []
            if key is not None:
                keys.append(key)
                residual += [conjunct] if not key.integral else []
            elif found and all(self._about_time(one) for one in found):
                window = reduce(Window.meets, map(_time_window, found), window)
            elif found:
                ranges.append((conjunct, found))
            else:
                residual.append(conjunct)
        if len(keys) > 2:  # a fingerprint of all parts
            residual = [*[one for one in conjuncts if self._key(one) is not None], *residual]
        band, checked = self._band(ranges)
        residual = [*dict.fromkeys([*residual, *checked])]
        shown = " and ".join(one.sql(dialect="spark") for one in conjuncts) or "true"
        return Condition(tuple(keys), band, window, self._residual(residual), shown)

    def _compile(self, tree: exp.Expr) -> Expression:
        return compile_tree(tree, self._sql, self._sides.schema, timezone=self._sides.timezone)

    def _residual(self, conjuncts: Sequence[exp.Expr]) -> Expression | None:
        if not conjuncts:
            return None
        whole = exp.and_(*[one.copy() for one in conjuncts], copy=False)
        return compile_tree(whole, self._sql, self._sides.schema, timezone=self._sides.timezone, wanted=pa.bool_())

    def _side_of(self, tree: exp.Expr) -> Side | None:
        columns = self._compile(tree).columns
        if columns and columns <= self._sides.left:
            return "left"
        return "right" if columns and columns <= self._sides.right else None

    def _key(self, tree: exp.Expr) -> Key | None:
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if not isinstance(tree, exp.EQ):
            return None
        sides = self._side_of(tree.this), self._side_of(tree.expression)
        if set(sides) != {"left", "right"}:
            return None
        left, right = self._compile(tree.this), self._compile(tree.expression)
        if sides[0] == "right":
            left, right = right, left
        shared = common_type(left, right)
        if shared is None or pa.types.is_struct(shared) or pa.types.is_nested(shared):
            return None
        return Key(left, right, shared)

    def _about_time(self, one: Inequality) -> bool:
        times = self._sides.event_times
        names = {side: self._compile(tree).columns for side, tree in (("left", one.x), ("right", one.y))}
        bare = isinstance(one.x, exp.Column) and isinstance(one.y, exp.Column)
        alone = all(names[side] == {times.get(side)} for side in ("left", "right"))
        return bare and alone and one.a == -one.b and abs(one.a) == 1

    def _band(self, ranges: list[tuple[exp.Expr, list[Inequality]]]) -> tuple[Band | None, list[exp.Expr]]:
        """The best pair of expressions to index by, and the conjuncts to check on candidates."""
        groups: dict[tuple[str, str], list[Inequality]] = {}
        for _, found in ranges:
            for one in found:
                groups.setdefault(one.bases, []).append(one)
        usable = {bases: band for bases, ones in groups.items() if (band := self._band_of(ones)) is not None}
        if not usable:
            return None, [conjunct for conjunct, _ in ranges]
        best = max(usable, key=lambda bases: (len({bound.upper for bound in usable[bases].left.bounds}), bases))
        exact = usable[best].encoding != "float"
        checked = [
            conjunct for conjunct, found in ranges if not exact or any(one.bases != best for one in found)
        ]  # fmt: skip
        return usable[best], checked

    def _band_of(self, ones: list[Inequality]) -> Band | None:
        x, y = self._compile(ones[0].x), self._compile(ones[0].y)
        shared = common_type(x, y)
        encoding = None if shared is None else _encoding(shared, all(abs(one.a) == abs(one.b) for one in ones))
        if shared is None or encoding is None:
            return None
        scale = shared.scale if encoding == "decimal" else 0
        left = tuple(_bound(one.b, one.a, one.c, one.strict, scale) for one in ones)  # a left value bounds y
        right = tuple(_bound(one.a, one.b, one.c, one.strict, scale) for one in ones)
        return Band(BandSide(x, left), BandSide(y, right), encoding, shared)


def _bound(of: Fraction, by: Fraction, constant: Fraction, strict: bool, scale: int) -> Bound:
    """of·v + by·w + constant <= 0, solved for v; constants in units of the encoding."""
    return Bound(of > 0, -by / of, -constant * 10**scale / of, strict)


def _time_window(one: Inequality) -> Window:
    """a·left + b·right + c <= 0 with a = ±1, b = -a."""
    constant = -((-one.c.numerator) // one.c.denominator)  # rounded up: distances are whole microseconds
    if one.strict and one.c.denominator == 1:
        constant += 1
    return Window(constant, None) if one.a > 0 else Window(None, -constant)


def _encoding(shared: pa.DataType, unit_factors: bool) -> Encoding | None:
    """The encoding of a type as int64; None if it is neither a number nor a time."""
    if sql_types.is_moment(shared):
        return "moment" if unit_factors else None
    if not sql_types.is_number(shared):
        return None
    if unit_factors and pa.types.is_integer(shared):
        return "integer"
    return "decimal" if unit_factors and pa.types.is_decimal(shared) and shared.precision <= 18 else "float"
