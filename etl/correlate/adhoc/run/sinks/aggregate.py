"""Aggregates of one query over a join result that is not materialised.

    1. weight  the selected tuples of every stream get a weight, the number of results they represent, initially 1
    2. fold    a leaf stream without group columns into its neighbour: the neighbour's weight times the sum of weights
               at its key; sums and minima of folded columns are carried along
    3. group   the remaining streams (one, unless groups have columns of several) are collapsed by link keys and group
               columns, and only the collapsed rows are joined

Tuples are never multiplied with tuples, at most groups with groups, as the result requires. Integers stay exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar import bitsets
from etl.columnar.csr import I32, I64
from etl.columnar.keys import to_contiguous
from etl.correlate.adhoc.query.domain import domain_of, from_numbers, to_numbers
from etl.correlate.adhoc.query.model import ColumnOf, Query
from etl.correlate.adhoc.run.joins import kernels
from etl.correlate.adhoc.run.joins.bucket import Bucket
from etl.correlate.adhoc.run.joins.factor import Factor, Link
from etl.correlate.adhoc.run.sinks.result import COUNT, Atom, atom_name, atoms_of, group_name

Numbers = npt.NDArray[Any]


@dataclass
class Weighted:
    """A stream's remaining tuples, their weights (results each represents), and the atoms of streams folded into it."""

    rows: I32
    count: I64
    atoms: dict[Atom, Numbers]

    def take(self, at: npt.NDArray[Any]) -> Weighted:
        return Weighted(self.rows[at], self.count[at], {atom: each[at] for atom, each in self.atoms.items()})


def aggregate(factor: Factor, query: Query, number: int) -> pa.Table | None:
    """The query's partial aggregates over a join result; None without a result."""
    values = Columns(factor)
    left = {stream: _weighted(factor, query, stream, number, values) for stream in factor.buckets}
    links = _fold_rims(factor, query, left)
    if any(not len(each.rows) for each in left.values()):
        return None
    found = _combined(factor, query, left, links)
    return _table(factor, query, found, values) if len(found[1].count) else None


class Columns:
    """The columns that atoms need, as numbers; text as ranks among the bucket's distinct strings."""

    def __init__(self, factor: Factor) -> None:
        self._buckets = factor.buckets
        self._texts: dict[ColumnOf, pa.Array] = {}
        self._numbers: dict[ColumnOf, tuple[Numbers, npt.NDArray[np.bool_] | None]] = {}

    def numbers(self, of: ColumnOf) -> tuple[Numbers, npt.NDArray[np.bool_] | None]:
        if of not in self._numbers:
            column = self._buckets[of.stream].table[of.column]
            domain = domain_of(column.type)
            if domain == "text":
                self._numbers[of] = self._ranks(of, to_contiguous(column))
            elif domain is None:  # only counted
                there = np.asarray(to_contiguous(column).is_null())
                self._numbers[of] = (np.zeros(len(there), np.int64), there)
            else:
                self._numbers[of] = to_numbers(column)
        return self._numbers[of]

    def _ranks(self, of: ColumnOf, column: pa.Array) -> tuple[Numbers, npt.NDArray[np.bool_] | None]:
        encoded = column.dictionary_encode()
        order = np.asarray(pa.compute.sort_indices(encoded.dictionary))
        self._texts[of] = encoded.dictionary.take(pa.array(order))
        rank = np.empty(len(order) + 1, np.int64)
        rank[order], rank[-1] = np.arange(len(order)), 0
        missing = np.asarray(column.is_null()) if column.null_count else None
        return rank[np.asarray(encoded.indices.fill_null(len(order)))], missing

    def column(self, atom: Atom, values: Numbers, missing: npt.NDArray[np.bool_]) -> pa.Array:
        kind, of = atom
        if kind == "nonnull":
            return pa.array(values)
        if of in self._texts:
            return self._texts[of].take(pa.array(values, mask=missing))
        column_type = self._buckets[of.stream].table[of.column].type
        if kind == "sum":
            column_type = _sum_type(column_type)
        return from_numbers(np.where(missing, 0, values), missing, column_type)


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def _weighted(factor: Factor, query: Query, stream: str, number: int, values: Columns) -> Weighted:
    """Phase 1: the tuples that the query selects."""
    sets = factor.sets[stream]
    at = (sets.mask & ((1 << number) - 1)).bit_count()
    rows = np.flatnonzero(bitsets.has_bit(sets.words, at)).astype(np.int32)
    atoms = {atom: _own(atom, rows, values) for atom in atoms_of(query) if atom[1].stream == stream}
    return Weighted(rows, np.ones(len(rows), np.int64), atoms)


def _own(atom: Atom, rows: I32, values: Columns) -> Numbers:
    """Each tuple's own contribution to an atom."""
    numbers, missing = values.numbers(atom[1])
    gone = np.zeros(len(rows), bool) if missing is None else missing[rows]
    if atom[0] == "nonnull":
        return (~gone).astype(np.int64)
    return np.where(gone, _neutral(atom, numbers.dtype), numbers[rows])


def _neutral(atom: Atom, dtype: np.dtype[Any]) -> Any:
    if atom[0] == "sum":
        return dtype.type(0)
    high = atom[0] == "min"
    if dtype.kind == "f":
        return np.inf if high else -np.inf
    return np.iinfo(np.int64).max if high else np.iinfo(np.int64).min


def _sums(groups: I32, values: Numbers, size: int) -> Numbers:
    if values.dtype.kind == "f":
        return kernels.float_sum_by(groups, values, size)
    return kernels.sum_by(groups, values, size)


def _gathered(atom: Atom, groups: I32, values: Numbers, size: int) -> Numbers:
    """An atom aggregated over the rows of each group."""
    if atom[0] in ("sum", "nonnull"):
        return _sums(groups, values, size)
    out = np.full(size, _neutral(atom, values.dtype), values.dtype)
    there = groups >= 0
    (np.minimum if atom[0] == "min" else np.maximum).at(out, groups[there], values[there])
    return out


def _scaled(atom: Atom, values: Numbers, times: I64) -> Numbers:
    return values * times if atom[0] in ("sum", "nonnull") else values


def _fold_rims(factor: Factor, query: Query, left: dict[str, Weighted]) -> list[Link]:
    """Phase 2: fold leaf streams without group columns into their neighbours."""
    grouped = {of.stream for of in query.group_by}
    links = list(factor.links)
    while links:
        degree = {s: [link for link in links if s in link.edge.streams] for s in left}
        rim = next((s for s in left if len(degree[s]) == 1 and s not in grouped and len(left) > 1), None)
        if rim is None:
            break
        (link,) = degree[rim]
        partner = link.other(rim)
        left[partner] = _fold(link, left.pop(rim), left[partner], rim, partner, factor)
        links.remove(link)
    return links


def _fold(link: Link, rim: Weighted, into: Weighted, stream: str, partner: str, factor: Factor) -> Weighted:
    size = len(link.at_left)
    own = link.numbers(stream, len(factor.buckets[stream]))[rim.rows]
    theirs = link.numbers(partner, len(factor.buckets[partner]))[into.rows]
    partners = kernels.sum_by(own, rim.count, size)
    keep = np.flatnonzero((theirs >= 0) & (partners[np.maximum(theirs, 0)] > 0))
    kept, keys = into.take(keep), theirs[keep]
    times = partners[keys]
    atoms = {atom: _scaled(atom, each, times) for atom, each in kept.atoms.items()}
    for atom, each in rim.atoms.items():
        atoms[atom] = _scaled(atom, _gathered(atom, own, each, size)[keys], kept.count)
    return Weighted(kept.rows, kept.count * times, atoms)


def _combined(
    factor: Factor, query: Query, left: dict[str, Weighted], links: list[Link]
) -> tuple[dict[str, I32], Weighted]:
    """Phase 3: collapse and join the remaining streams. The rows tell where group columns are read."""
    numbers = {
        stream: {link.edge: link.numbers(stream, len(factor.buckets[stream]))[each.rows] for link in links if stream
        in link.edge.streams} for stream, each in left.items()
    }  # fmt: skip
    slim = {stream: _collapsed(factor, query, stream, each, numbers[stream]) for stream, each in left.items()}
    first, *_ = slim
    rows, total, keys = {first: slim[first][0].rows}, slim[first][0], {first: slim[first][1]}
    todo = list(links)
    while todo:
        link = next(each for each in todo if each.edge.streams & rows.keys())
        todo.remove(link)
        known = next(stream for stream in link.edge.streams if stream in rows)
        new = link.other(known)
        other, other_keys = slim[new]
        one, two = _pairs(keys[known][link.edge], other_keys[link.edge])
        rows = {stream: each[one] for stream, each in rows.items()} | {new: other.rows[two]}
        keys = {s: {e: k[one] for e, k in each.items()} for s, each in keys.items()}
        keys[new] = {e: k[two] for e, k in other_keys.items()}
        total = _product(total.take(one), other.take(two))
    return rows, total


def _product(one: Weighted, two: Weighted) -> Weighted:
    atoms = {atom: _scaled(atom, each, two.count) for atom, each in one.atoms.items()}
    atoms |= {atom: _scaled(atom, each, one.count) for atom, each in two.atoms.items()}
    return Weighted(one.rows, one.count * two.count, atoms)


def _pairs(left: I32, right: I32) -> tuple[I64, I64]:
    """Positions with the same key on both sides; key -1 matches nothing."""
    order = np.argsort(right, kind="stable")
    start, stop = np.searchsorted(right[order], left), np.searchsorted(right[order], left, "right")
    many = np.where(left >= 0, stop - start, 0)
    one = np.repeat(np.arange(len(left)), many)
    within = np.arange(len(one)) - np.repeat(np.cumsum(many) - many, many)
    return one, order[start[one] + within]


def _collapsed(
    factor: Factor, query: Query, stream: str, each: Weighted, numbers: dict[Any, I32]
) -> tuple[Weighted, dict[Any, I32]]:
    """Collapse rows with equal link keys and group columns."""
    columns: list[Numbers] = list(numbers.values())
    columns += [_codes(factor.buckets[stream], of, each.rows) for of in query.group_by if of.stream == stream]
    if not columns:
        groups, first = np.zeros(len(each.rows), np.int32), np.zeros(1, np.int64)
    else:
        code = np.zeros(len(each.rows), np.int64)
        for column in columns:
            mixed = np.asarray(code * (int(column.max(initial=0)) + 2) + column + 1, np.int64)
            code = np.unique(mixed, return_inverse=True)[1]
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        groups = inverse.astype(np.int32)
    size = len(first)
    atoms = {atom: _gathered(atom, groups, values, size) for atom, values in each.atoms.items()}
    slim = Weighted(each.rows[first], kernels.sum_by(groups, each.count, size), atoms)
    return slim, {edge: column[first] for edge, column in numbers.items()}


def _codes(bucket: Bucket, of: ColumnOf, rows: I32) -> I64:
    column = to_contiguous(bucket.table[of.column].take(pa.array(rows))).dictionary_encode()
    return np.asarray(column.indices.fill_null(-1)).astype(np.int64)


def _table(factor: Factor, query: Query, found: tuple[dict[str, I32], Weighted], values: Columns) -> pa.Table:
    rows, total = found
    columns: dict[str, Any] = {}
    for of in query.group_by:
        columns[group_name(of)] = to_contiguous(
            factor.buckets[of.stream].table[of.column].take(pa.array(rows[of.stream]))
        )
    columns[COUNT] = pa.array(total.count)
    for atom, numbers in total.atoms.items():
        missing = np.zeros(len(numbers), bool)
        if atom[0] in ("min", "max"):
            missing = numbers == _neutral(atom, numbers.dtype)
        columns[atom_name(atom)] = values.column(atom, numbers, missing)
    order = [group_name(of) for of in query.group_by] + [COUNT] + [atom_name(atom) for atom in atoms_of(query)]
    return pa.table({name: columns[name] for name in order})
