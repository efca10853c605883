"""Shared by the generators of the small examples: kinds of events, and atomic writing of files.

Every kind of event has a known outcome, so that a test can compare the warehouse with the input.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from psycopg2 import sql

from etl.adapters import postgres


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected routes of generated events. `reasons` counts the refused ones by expected reason."""

    lines: int
    fact: int
    quarantined: int
    backlog: int
    duplicates: int
    reasons: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ended = self.fact + self.quarantined + self.backlog + self.duplicates
        assert ended == self.lines, "every event ends in exactly one place"


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of events that are not simply good. `refused` maps a way of being wrong to the reason it must give."""

    refused: Mapping[str, str]
    share_refused: float = 0.04
    share_duplicates: float = 0.02
    share_conflicts: float = 0.01
    share_waiting: float = 0.02

    def kinds(self, count: int, random: np.random.Generator) -> list[str]:
        """The kind of each of `count` events. The first is good, so that it can be repeated."""
        shares = {
            "duplicate": self.share_duplicates,
            "conflict": self.share_conflicts,
            "waiting": self.share_waiting,
            **dict.fromkeys(self.refused, self.share_refused / len(self.refused)),
        }
        names = ["good", *shares]
        drawn = random.choice(len(names), count, p=[1 - sum(shares.values()), *shares.values()])
        drawn[:1] = 0
        return [names[one] for one in drawn]

    def expected(self, kinds: list[str]) -> Expected:
        """The expected routes of events of these kinds."""
        found = Counter(kinds)
        reasons = Counter[str]()
        for kind, reason in self.refused.items():
            reasons[reason] += found[kind]
        reasons["conflicting_payload"] += found["conflict"]
        return Expected(
            lines=len(kinds),
            fact=found["good"],
            quarantined=reasons.total(),
            backlog=found["waiting"],
            duplicates=found["duplicate"],
            reasons={reason: times for reason, times in reasons.items() if times},
        )


def publish(landing: Path, name: str, data: bytes) -> Path:
    """Write a file into a folder, atomically and synced."""
    landing.mkdir(parents=True, exist_ok=True)
    draft, target = landing / f".{name}.part", landing / name
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(target)
    return target


def fill(connection: postgres.Connection, ddl: str, table: str, rows: pa.Table) -> None:
    """Create a table unless it is there, and copy rows into it if it is empty; the caller commits."""
    with connection.cursor() as cursor:
        cursor.execute(ddl)
        cursor.execute(sql.SQL("select exists (select from {})").format(postgres.identifier(table)))
        (filled,) = cursor.fetchone() or (False,)
    if not filled:
        postgres.copy_in(connection, table, rows)
