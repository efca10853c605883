"""What one run measures; small enough to be handed to the process that does it."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.data import DataSet, Draw
from etl.errors import TerminalError
from etl.settings import Settings

PEERS = ("spark-jdbc", "spark-delta", "spark-cached", "any-lookup")
OURS = ("cinlj", "auto", "cmeshjoin", "chybridjoin")
CONTENDERS = (*OURS, *PEERS, "identity")
_MOST = 3  # times as many timed batches as asked for, where batches are quick
MEMORY_SHARE = 0.10  # of R, for all workers of ours together


class UnknownContender(TerminalError):
    """A name nobody goes by."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"contender {self.name!r} is unknown; allowed are {', '.join(CONTENDERS)}"


@dataclass(frozen=True, slots=True)
class Jdbc:
    """How Spark reaches Postgres. Never printed: it holds a password."""

    url: str
    user: str
    password: str = field(repr=False)
    jar: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes, skews and contenders; `dsn` and `jdbc` only where somebody asks Postgres."""

    data: DataSet
    batches: tuple[int, ...]
    zipfs: tuple[float, ...]
    contenders: tuple[str, ...]
    repeats: int
    settings: Settings = field(repr=False)
    warmups: int = 12
    small_rows: int | None = None  # R of the growth measurement beside R itself
    dsn: str | None = field(default=None, repr=False)
    jdbc: Jdbc | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in self.contenders:
            if name not in CONTENDERS:
                raise UnknownContender(name)
        for name in ("repeats", "warmups"):
            if getattr(self, name) < 1:
                raise TerminalError(f"{name}={getattr(self, name)} is not positive")

    def chosen(self, names: tuple[str, ...]) -> list[str]:
        """Those of some contenders that take part, in the order of `names`."""
        return [name for name in names if name in self.contenders]

    @property
    def needs_postgres(self) -> bool:
        """Every peer does: Delta, and from it the cache, are filled from there."""
        return bool(self.chosen(PEERS))

    def warming(self, size: int, zipf: float) -> list[Draw]:
        """Batches before the timed ones, as many as there may be."""
        return [Draw(size, zipf, number) for number in range(self.warmups)]

    def timed(self, size: int, zipf: float) -> list[Draw]:
        """Batches to be timed, as many as there may be; nobody has seen them before."""
        return [Draw(size, zipf, self.warmups + number) for number in range(_MOST * self.repeats)]
