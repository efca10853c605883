"""What one run measures, small enough to be handed to another process as JSON.

    Task   one contender: its sites, one after the other in one process, and when it has to be done
    Site   a fresh warehouse and database, with masters of some size
    Cell   batches of one size: some to warm up, then timed ones until there are enough or the time is up

A contender that runs out of time leaves its last cells out; an aim that needs them is then *not measured*, never met.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from etl.errors import TerminalError

Contender = Literal["before", "plain", "ours"]
CONTENDERS: tuple[Contender, ...] = ("before", "plain", "ours")
UNCHECKED = "plain, no checkpoint"
SIZES = (100, 5_000, 50_000, 500_000)
_NO_AIM = 5_000
"""The size that no aim compares: measured last, so that a slow machine leaves out this one."""
MASTERS, MORE_MASTERS = 100_000, 3_000_000
HISTORY = 200
"""Batches of the site on which batch 10 is compared with batch 200: the medians of a few around each."""


class UnknownContender(TerminalError):
    """A name nobody goes by."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"contender {self.name!r} is unknown; allowed are {', '.join(CONTENDERS)}"


class NotMeasured(TerminalError):
    """Something the benchmark is for, and this tree cannot do."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self) -> str:
        return f"{self.what} cannot be measured: {self.why}"


@dataclass(frozen=True, slots=True)
class Cell:
    """Batches of one size. `variants` take turns, each on batches of its own."""

    size: int
    variants: tuple[str, ...]
    warmups: int
    timed: int
    budget_s: float

    @property
    def batches(self) -> int:
        """How many batches there have to be."""
        return (self.warmups + self.timed) * len(self.variants)


@dataclass(frozen=True, slots=True)
class Site:
    """One fresh warehouse. `history`: every batch is kept by its number, not only the median."""

    name: str
    masters: int
    cells: tuple[Cell, ...]
    history: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """Everything the process of a contender has to know. Never printed: it holds passwords."""

    contender: str
    folder: str
    orders: str
    jars: str
    sites: tuple[Site, ...]
    dsns: dict[str, str] = field(repr=False)
    jdbc: dict[str, str] = field(repr=False)
    budget_s: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        values: dict[str, Any] = json.loads(text)
        sites = tuple(
            Site(**{**site, "cells": tuple(Cell(**{**c, "variants": tuple(c["variants"])}) for c in site["cells"])})
            for site in values.pop("sites")
        )
        return cls(**values, sites=sites)


def sites_of(contender: str, sizes: tuple[int, ...], more_masters: int | None, history: int) -> tuple[Site, ...]:
    """What a contender is measured on. Sizes that aims compare come first and rise, a history comes last: by then the
    compilers of the JVM have learned.
    """
    if contender not in CONTENDERS:
        raise UnknownContender(contender)
    variants = ("plain", UNCHECKED) if contender == "plain" else (contender,)
    main = [_cell(contender, size, variants) for size in sorted(sizes, key=lambda size: (size == _NO_AIM, size))]
    if contender == "ours":
        main.append(Cell(0, variants, 1, 3, 10.0))  # runs that find nothing to do
    sites = [Site("main", MASTERS, tuple(main))]
    if contender != "before" and more_masters:
        chosen = [size for size in sorted(sizes) if size == 50_000 or (size == 100 and contender == "ours")]
        cells = tuple(_cell(contender, size, variants[-1:]) for size in chosen)  # the checkpoint sees no masters
        sites.append(Site("more-masters", more_masters, cells))
    if contender == "ours" and history:
        longest_s = 360.0 * max(1.0, history / HISTORY)
        sites.append(Site("history", MASTERS, (Cell(min(sizes), variants, 0, history, longest_s),), history=True))
    return tuple(sites)


def _cell(contender: str, size: int, variants: tuple[str, ...]) -> Cell:
    """The same warm-up for all whom an aim compares; `before` has none for 500,000 orders, which no aim needs."""
    warmups = 3 if size <= 100 else 1
    if contender == "before":  # half a minute a batch and more: few of them are timed
        small = size <= 50_000
        return Cell(size, variants, warmups if small else 0, 2 if small else 1, 60.0)
    return Cell(size, variants, warmups, 3 if contender == "plain" else 5, 40.0)
