"""Lost tries in the ledger: counted before each try, so that a try which kills its process counts, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from psycopg2.extras import Json

from etl.adapters.ledger import Ledger

Part = tuple[int | str, int, int]
"""Lines of a slice, by its ordinal, or rows of a file of the backlog, by its path: the first and the last one."""


Mark = tuple[int | str, int]
"""One line of a slice, or row of a file of the backlog."""


@dataclass(slots=True)
class Suspects:
    """Lines that may have killed a try. `deaths` counts lost tries of them."""

    parts: list[Part]
    deaths: int = 0


@dataclass(slots=True)
class Together:
    """Sources that die together, and none of whose lines kills by itself: the first `survived` of them survive, the
    first `died` do not (None: all of them are being tried). `deaths` counts lost tries of what is between."""

    survived: int = 0
    died: int | None = None
    deaths: int = 0


@dataclass(slots=True)
class Losses:
    """Consecutive lost tries, and the search: suspects to try (the last one first), and what was found."""

    lost: int = 0
    suspects: list[Suspects] | None = None  # None: no search has begun
    poison: list[Mark] = field(default_factory=list)
    together: Together | None = None
    later: list[Mark] = field(default_factory=list)  # from this line on, a later batch reads it: still to be cut off
    left: dict[str, int] = field(default_factory=dict)  # the same of files of the backlog, for the whole batch

    def as_json(self) -> dict[str, Any]:
        return {
            "lost": self.lost,
            "suspects": None if self.suspects is None else [[one.parts, one.deaths] for one in self.suspects],
            "poison": self.poison,
            "together": None if self.together is None else asdict(self.together),
            "later": self.later,
            "left": self.left,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        found, together = value.get("suspects"), value.get("together")
        suspects = None
        if found is not None:
            suspects = [Suspects([(one[0], one[1], one[2]) for one in parts], deaths) for parts, deaths in found]
        return cls(
            value.get("lost", 0),
            suspects,
            [(source, line) for source, line in value.get("poison", ())],
            None if together is None else Together(**together),
            [(source, line) for source, line in value.get("later", ())],
            dict(value.get("left", {})),
        )


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
