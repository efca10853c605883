"""Masters that are read directly, without pages: a Postgres snapshot, or a Delta version, held for one batch.

A Postgres snapshot ends with its transaction, so a retried batch reads a new one. Delta keeps its versions: a retried
batch finds its pin, as with pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from etl.contract.model import Master
from etl.errors import TerminalError
from etl.masters.delta.reader import pin_delta
from etl.masters.driver_state import driver_state
from etl.masters.masters import PINS_FOR, PinnedMaster, received, rows_name
from etl.masters.pins import Pin, Pins
from etl.masters.postgres.reader import MasterSnapshot, exported_snapshot
from etl.model import Progress


@dataclass(frozen=True, slots=True)
class PostgresMasters:
    """Master tables in Postgres; all tasks share one exported snapshot."""

    dsn: str = field(repr=False)
    masters: Sequence[Master]
    rows_per_query: int

    @contextmanager
    def pinned(self, owner: str, now: datetime, progress: Progress) -> Iterator[tuple[PinnedMaster, ...]]:  # noqa: ARG002
        with exported_snapshot(self.dsn) as snapshot:
            yield tuple(self._pin(snapshot, master, now) for master in self.masters)

    def _pin(self, snapshot: MasterSnapshot, master: Master, now: datetime) -> PinnedMaster:
        pinned = snapshot.pin(
            master.table, list(master.key_columns), received(master), rows_per_query=self.rows_per_query
        )
        origin = f"postgres {snapshot.origin} {master.table}"
        pinned = replace(pinned, fences=driver_state().fences(origin, now, lambda: snapshot.fences(pinned)))
        rows_id = rows_name(f"{origin}:{pinned.version}", pinned.schema)
        return PinnedMaster(master, pinned.version, rows_id, pinned.schema, pinned)


@dataclass(frozen=True, slots=True)
class DeltaMasters:
    """Master tables in Delta, at the newest version as of the batch's first try."""

    masters: Sequence[Master]
    path_of: Callable[[Master], Path]
    pins: Path

    @contextmanager
    def pinned(self, owner: str, now: datetime, progress: Progress) -> Iterator[tuple[PinnedMaster, ...]]:  # noqa: ARG002
        with ExitStack() as ends:
            yield tuple(self._pin(master, owner, now, ends) for master in self.masters)

    def _pin(self, master: Master, owner: str, now: datetime, ends: ExitStack) -> PinnedMaster:
        pins = Pins(self.pins / master.name)
        earlier = pins.of(owner)
        kept = earlier.version if earlier is not None and now - earlier.since < PINS_FOR else None
        pinned = pin_delta(self.path_of(master), list(master.key_columns), received(master), version=kept)
        pins.put(Pin(owner, pinned.version, now))
        ends.push(_unless_repeatable(pins, owner))
        rows_id = rows_name(f"delta {pinned.table_id}:{pinned.version}", pinned.schema)
        return PinnedMaster(master, pinned.version, rows_id, pinned.schema, pinned)


def _unless_repeatable(pins: Pins, owner: str) -> Callable[..., None]:
    def end(_kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, TerminalError):
            pins.drop(owner)

    return end


@dataclass(frozen=True, slots=True)
class DirectMasters:
    """Masters in Postgres and in Delta, each read from its own store."""

    masters: Sequence[Master]
    dsn: str = field(repr=False)
    rows_per_query: int
    path_of: Callable[[Master], Path]
    pins: Path

    @contextmanager
    def pinned(self, owner: str, now: datetime, progress: Progress) -> Iterator[tuple[PinnedMaster, ...]]:
        in_postgres = [one for one in self.masters if one.store == "postgres"]
        in_delta = [one for one in self.masters if one.store == "delta"]
        with ExitStack() as open_ones:
            found: list[PinnedMaster] = []
            if in_postgres:
                stores = PostgresMasters(self.dsn, in_postgres, self.rows_per_query)
                found += open_ones.enter_context(stores.pinned(owner, now, progress))
            if in_delta:
                found += open_ones.enter_context(
                    DeltaMasters(in_delta, self.path_of, self.pins).pinned(owner, now, progress)
                )
            by_name = {one.master.name: one for one in found}
            yield tuple(by_name[one.name] for one in self.masters)
