"""Lost tries in the ledger: counted before each try, so that a try which kills its process counts, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from psycopg2.extras import Json

from etl.adapters.ledger import Ledger

Part = tuple[int | str, int, int]
"""Lines of a slice, by its ordinal, or rows of a file of the backlog, by its path: the first and the last one."""


@dataclass(slots=True)
class Suspects:
    """Lines that may have killed a try. `deaths` counts lost tries of them."""

    parts: list[Part]
    deaths: int = 0


@dataclass(slots=True)
class Losses:
    """Consecutive lost tries, and the search: suspects to try (the last one first), and poison found."""

    lost: int = 0
    suspects: list[Suspects] | None = None  # None: no search has begun
    poison: list[tuple[int | str, int]] = field(default_factory=list)  # slice or file of the backlog, line

    def as_json(self) -> dict[str, Any]:
        open_ones = None if self.suspects is None else [[one.parts, one.deaths] for one in self.suspects]
        return {"lost": self.lost, "suspects": open_ones, "poison": self.poison}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        found = value.get("suspects")
        suspects = None
        if found is not None:
            suspects = [Suspects([(one[0], one[1], one[2]) for one in parts], deaths) for parts, deaths in found]
        return cls(value.get("lost", 0), suspects, [(source, line) for source, line in value.get("poison", ())])


@dataclass(frozen=True, slots=True)
class LossBook:
    """The losses of one batch, in the ledger."""

    ledger: Ledger
    batch: int

    def read(self) -> Losses:
        query = "select losses from etl.batch where pipeline = %s and batch = %s"
        with self.ledger.connection.cursor() as cursor:
            cursor.execute(query, (self.ledger.pipeline, self.batch))
            (value,) = cursor.fetchone() or ({},)
        return Losses.from_json(value)

    def write(self, losses: Losses) -> None:
        query = "update etl.batch set losses = %s where pipeline = %s and batch = %s and state = 'reading'"
        with self.ledger.connection.cursor() as cursor:
            cursor.execute(query, (Json(losses.as_json()), self.ledger.pipeline, self.batch))
