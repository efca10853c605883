"""Sets of values of one column, as selected by a condition. Closed under and, or, not.

    x > 3 and x <= 7     ...3]((3   7](7...        cuts: after 3, after 7
    x <> 5               everything, cuts: before 5, after 5

A set is a list of cuts in ascending order: membership flips at each. A cut lies before or after a value, so that open
and closed ends and single values are represented alike. NULL is in a set only if `null` is true; NOT of a comparison
does not select NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Cut = tuple[Any, int]  # (value, 0 before it | 1 after it)
BEFORE, AFTER = 0, 1


@dataclass(frozen=True, slots=True)
class ValueSet:
    below: bool  # whether values below the first cut belong
    cuts: tuple[Cut, ...] = ()
    null: bool = False

    def __contains__(self, value: Any) -> bool:
        if value is None:
            return self.null
        passed = sum(1 for cut in self.cuts if cut[0] < value or (cut[0] == value and cut[1] == BEFORE))
        return self.below ^ bool(passed % 2)

    @property
    def empty(self) -> bool:
        return not self.below and not self.cuts and not self.null

    @property
    def everything(self) -> bool:
        return self.below and not self.cuts and self.null

    def complement(self) -> ValueSet:
        """The other values. NULL stays out: a comparison with NULL is unknown, and so is its negation."""
        return ValueSet(not self.below, self.cuts)

    def intersection(self, other: ValueSet) -> ValueSet:
        return _combine(self, other, both=True)

    def union(self, other: ValueSet) -> ValueSet:
        return _combine(self, other, both=False)


EVERYTHING = ValueSet(True, (), null=True)
NOTHING = ValueSet(False)
NOT_NULL = ValueSet(True)
NULL_ONLY = ValueSet(False, (), null=True)


def at(value: Any) -> ValueSet:
    return ValueSet(False, ((value, BEFORE), (value, AFTER)))


def below(value: Any, *, inclusive: bool) -> ValueSet:
    return ValueSet(True, ((value, AFTER if inclusive else BEFORE),))


def above(value: Any, *, inclusive: bool) -> ValueSet:
    return ValueSet(False, ((value, BEFORE if inclusive else AFTER),))


def union_of(sets: Sequence[ValueSet]) -> ValueSet:
    """The union, merged pairwise: IN may have thousands of values."""
    found = list(sets)
    while len(found) > 1:
        odd = found[len(found) & ~1 :]
        found = [one.union(other) for one, other in zip(found[::2], found[1::2], strict=False)] + odd
    return found[0] if found else NOTHING


def _combine(left: ValueSet, right: ValueSet, *, both: bool) -> ValueSet:
    def verdict(a: bool, b: bool) -> bool:
        return (a and b) if both else (a or b)

    in_left, in_right = left.below, right.below
    inside = first = verdict(in_left, in_right)
    cuts: list[Cut] = []
    i = j = 0
    while i < len(left.cuts) or j < len(right.cuts):
        ends = ([left.cuts[i]] if i < len(left.cuts) else []) + ([right.cuts[j]] if j < len(right.cuts) else [])
        cut = min(ends)
        if i < len(left.cuts) and left.cuts[i] == cut:
            in_left, i = not in_left, i + 1
        if j < len(right.cuts) and right.cuts[j] == cut:
            in_right, j = not in_right, j + 1
        if verdict(in_left, in_right) != inside:
            inside = not inside
            cuts.append(cut)
    return ValueSet(first, tuple(cuts), verdict(left.null, right.null))
