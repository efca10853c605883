"""The inputs of steps: the files of a store as tuples, as of the start of a batch.

Files are immutable, so tuples stay cached while their batch can be in a window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.correlate.multiway import layout
from etl.correlate.multiway.codes import I64
from etl.correlate.multiway.execution.calendar import BEGINNING, Calendar
from etl.correlate.multiway.execution.folder import SiteFolder, from_bytes
from etl.correlate.multiway.execution.mjoin import Input
from etl.correlate.multiway.execution.program import Program, Route, Step, Store
from etl.correlate.multiway.execution.tuples import Tuples, concat, empty, load
from etl.correlate.multiway.planning.tree import Node
from etl.correlate.multiway.query import JoinQuery

ENDS = pa.schema([pa.field(layout.END, pa.int64())])


@dataclass(frozen=True)
class Epoch:
    """The batches from `first_batch` on, which follow one plan. Earlier ones are replayed to fill its windows."""

    number: int
    first_batch: int
    first_replayed: int
    plan: Node
    program: Program
    reason: str = ""
    made_by: str = ""  # how it was planned


class State:
    def __init__(self, query: JoinQuery, folders: Mapping[str, SiteFolder], calendar: Calendar) -> None:
        self._query, self._folders, self._calendar = query, folders, calendar
        self._loaded: dict[tuple[int, int, Step, Route | None], Tuples] = {}

    def room(self, epoch: Epoch, step: Step) -> str:
        """The folder of a step's files; results do not depend on the plan that made them."""
        kind = step.output.kind
        room = {"result": "results", "gathered": "gathered"}.get(kind, f"e{epoch.number:04d}/{step.output.name}")
        return f"{self._query.name}/{room}/{step.name}"

    def path(self, epoch: Epoch, step: Step, batch: int) -> str:
        return f"{self.room(epoch, step)}/{batch:012d}.arrow"

    def schema(self, store: Store) -> pa.Schema:
        return ENDS if store.kind == "ends" else layout.schema(self._query, store.streams)

    def table(self, epoch: Epoch, step: Step, batch: int) -> pa.Table:
        """The output of a step."""
        content = self._folders[step.output.site].read(self.path(epoch, step, batch))
        return from_bytes(content, self.schema(step.output))

    def whole(self, epoch: Epoch, store: Store, batch: int) -> pa.Table:
        """All tuples of a batch in a store."""
        parts = [self.table(epoch, step, batch) for step in epoch.program.writers[store]]
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts)

    def made(self, epoch: Epoch, store: Store, batch: int, route: Route | None) -> pa.Table:
        """A batch's tuples that were produced at the site of a store, restricted to the values of a route."""
        makers = epoch.program.makers(store)
        if store.kind == "tuples":
            parts = [self._part(epoch, step, batch, route) for step in makers]
            return concat(parts, parts[0]).table
        return pa.concat_tables([self.table(epoch, step, batch) for step in makers])

    def input(self, epoch: Epoch, store: Store, batch: int, route: Route | None) -> Input:
        """An input of a join: the batch's new tuples, and earlier ones that are still in their window."""
        first = max(epoch.first_replayed, self._calendar.first_live(batch))
        live = [self._of_batch(epoch, store, number, route) for number in range(first, batch)]
        watermark = self._calendar.watermark(batch)
        old = concat(live, empty(self._query, store.streams))
        old = self._closed(epoch, store, old, first, batch)
        old = old.where(old.end >= watermark)
        new = self._closed(epoch, store, self._of_batch(epoch, store, batch, route), first, batch)
        return Input(store.streams, old, new)

    def forget(self, batch: int) -> None:
        """Drop cached tuples of earlier batches."""
        self._loaded = {name: one for name, one in self._loaded.items() if name[1] >= batch}

    def _of_batch(self, epoch: Epoch, store: Store, batch: int, route: Route | None) -> Tuples:
        parts = [self._part(epoch, step, batch, route) for step in epoch.program.writers[store]]
        return concat(parts, parts[0])

    def _part(self, epoch: Epoch, step: Step, batch: int, route: Route | None) -> Tuples:
        name = (epoch.number, batch, step, route)
        if name not in self._loaded:
            if route is None:
                self._loaded[name] = load(self._query, step.output.streams, self.table(epoch, step, batch))
            else:
                whole = self._part(epoch, step, batch, None)
                codes = whole.codes[route.attribute].values
                wanted = np.zeros(route.partitioner.partitions, np.bool_)
                wanted[list(route.partitions)] = True
                self._loaded[name] = whole.where(wanted[route.partitioner.assign(codes)])
        return self._loaded[name]

    def _closed(self, epoch: Epoch, store: Store, tuples: Tuples, first: int, batch: int) -> Tuples:
        """Tuples with the ends of their tuple windows known so far."""
        end = tuples.end
        for stream in layout.counted(self._query, store.streams):
            places = tuples.table.column(layout.sequence(stream)).to_numpy()
            end = np.minimum(end, self._ends(epoch, stream, store.site, first, batch, places))
        return tuples if end is tuples.end else tuples.with_end(end)

    def _ends(self, epoch: Epoch, stream: int, site: str, first: int, batch: int, places: I64) -> I64:
        store = Store("ends", 1 << stream, site)
        known = [
            self.whole(epoch, store, number).column(layout.END).to_numpy() for number in range(first, batch + 1)
        ]  # fmt: skip
        ends = np.concatenate([*known, np.array([layout.FOREVER])])
        at = places - self._calendar.closed(stream, first)[0]
        return np.where(at < 0, BEGINNING, ends[np.clip(at, 0, len(ends) - 1)])
