"""Detect schema changes: undeclared fields, and declared ones that are missing or invalid in nearly all events.

    Events ── observe ──▶ Observed(lines, added, missing, invalid) ── sums over blocks ── departed ──▶ sentences

An undeclared field is kept in `extra` and reported here. A required field that is missing in nearly all lines, or that
has another type in nearly all of them, is not dirty data: the producer has changed. See ADR 61.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.contract.model import Field
from etl.ingest.events import BROKEN, EXTRA, Events

NEARLY_ALL = 0.95
"""Share of a batch's parsable lines."""
FEWEST_LINES = 100
"""With fewer lines nothing is concluded: three bad lines of three are no new schema."""
_LOOKED_AT = 256  # lines of a block in which undeclared names are looked for
_NAMES = 50  # reported at most, the most frequent first
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Observed:
    """Counts over some lines. `added` is exact for few lines and extrapolated from a sample for many."""

    lines: int = 0  # that could be parsed
    added: Counter[str] = field(default_factory=Counter)  # by undeclared name, about how many lines have it
    missing: Counter[str] = field(default_factory=Counter)  # by field
    invalid: Counter[str] = field(default_factory=Counter)  # by field

    def __add__(self, other: Observed) -> Observed:
        added = Counter(dict((self.added + other.added).most_common(_NAMES)))
        return Observed(self.lines + other.lines, added, self.missing + other.missing, self.invalid + other.invalid)

    def as_json(self) -> dict[str, Any]:
        return {"lines": self.lines, "added": self.added, "missing": self.missing, "invalid": self.invalid}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(value["lines"], *(Counter(value[name]) for name in ("added", "missing", "invalid")))


def observe(events: Events, fields: Iterable[Field]) -> Observed:
    """The counts of one block of events. Nearly free when they are as declared."""
    reasons = _counted(events.reasons)
    broken = sum(reasons.get(name, 0) for name in BROKEN)
    names = [one.name for one in fields]
    return Observed(
        len(events) - broken,
        _undeclared(events.batch.column(EXTRA)),
        Counter({name: count for name in names if (count := reasons.get(f"{name}_missing", 0))}),
        Counter({name: count for name in names if (count := reasons.get(f"{name}_invalid", 0))}),
    )


def _counted(reasons: pa.ListArray) -> dict[str, int]:
    flat = reasons.flatten()
    if not len(flat):
        return {}
    counts = pc.value_counts(flat)
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))


def _undeclared(extra: pa.Array) -> Counter[str]:
    """Names in `extra`, from an evenly spaced sample of the lines that have it."""
    count = len(extra) - extra.null_count
    if not count:
        return Counter()
    having = np.flatnonzero(extra.is_valid().to_numpy(zero_copy_only=False))
    chosen = having[np.linspace(0, count - 1, min(count, _LOOKED_AT)).astype(np.int64)]
    names: Counter[str] = Counter()
    for text in extra.take(pa.array(chosen)).to_pylist():
        names.update({_shown(name) for name in _members(text)})
    scale = count / len(chosen)
    return Counter({name: round(seen * scale) for name, seen in names.most_common(_NAMES)})


def _members(text: str) -> Iterable[str]:
    try:
        value = json.loads(text, parse_int=str, parse_float=str)  # numbers of any length
    except (ValueError, RecursionError):
        return ()
    return value if isinstance(value, dict) else ()


def _shown(name: str) -> str:
    """An external name, made safe for any store and any page."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in name[:_LONGEST_NAME])


def departed(observed: Observed, fields: Iterable[Field]) -> Iterator[str]:
    """Fields that nearly all lines lack or have in another type, in words; nothing if there are few lines."""
    if observed.lines < FEWEST_LINES:
        return
    for one in fields:
        for counts, word in ((observed.missing, "missing"), (observed.invalid, f"not a {one.type}")):
            if counts[one.name] >= NEARLY_ALL * observed.lines:
                yield f"{one.name} is {word} in {counts[one.name]:,} of {observed.lines:,} lines"
