"""One correlation over sites in one process: its query, its executor on ledger and stream log, its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from etl.contract.correlations.sites import SiteCorrelation
from etl.correlate.multiway.execution.calendar import BEGINNING, Arrival
from etl.correlate.multiway.execution.executor import Executor
from etl.correlate.multiway.execution.folder import SiteFolder
from etl.correlate.multiway.execution.observe import head_bytes, measured_model, observe
from etl.correlate.multiway.planning.planner import PlanOptions, make_plan, replan
from etl.correlate.multiway.query import TupleWindow
from etl.correlate.multiway.rates import RateModel
from etl.streams.sites import statistics
from etl.streams.sites.ledger import KnownOverSites, LedgerBook, SiteLedger
from etl.streams.sites.query import SiteQuery, plan_options, site_query
from etl.streams.sites.segments import LogSegments

if TYPE_CHECKING:
    from etl.streams.declared import Catalog
    from etl.streams.tasks.plan import Places

_SHORTEST_S = 1e-3  # least event time that a batch is assumed to cover


@dataclass(frozen=True)
class Running:
    """A running correlation. Its batches are numbered from its first one."""

    declared: SiteCorrelation
    known: KnownOverSites
    query: SiteQuery
    executor: Executor
    segments: LogSegments
    ledger: SiteLedger

    @classmethod
    def of(
        cls,
        declared: SiteCorrelation,
        known: KnownOverSites,
        catalog: Catalog,
        places: Places,
        folders: Mapping[str, SiteFolder],
        ledger: SiteLedger,
    ) -> Running:
        query = site_query(declared, catalog.streams, catalog.sites.found, known.token)
        streams = sorted({source.stream for source in query.sql.sources.values()})
        found = ledger.segments(streams, known.since + known.live)
        segments = LogSegments(query, places.store, folders, known.since, found)
        book = LedgerBook(ledger.connection, known.name, known.since)
        used = {one.site for one in query.join.streams} | {query.join.target}
        at = {name: folder for name, folder in folders.items() if name in used}
        executor = Executor(query.join, book, at, segments)
        return cls(declared, known, query, executor, segments, ledger)

    @property
    def name(self) -> str:
        return self.declared.name

    @cached_property
    def attributes(self) -> list[str]:
        return [one.name for one in self.query.join.attributes]

    # ── a batch begins ─────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> str | None:
        """Begin the next batch, with a new plan if that pays; returns the reason for one. May raise `SiteAway`."""
        number = self.executor.calendar.following
        arrivals = [self._arrival(stream, number) for stream in range(len(self.query.join.streams))]
        reason = self._plan(number)
        self.executor.begin_counted(arrivals)
        return reason

    def _arrival(self, stream: int, number: int) -> Arrival:
        """The batch's input from the ledger's segments; reads tuples only if the window is counted."""
        held = self.segments.of(stream, number)
        rows = sum(one.rows for one in held)
        if rows and isinstance(self.query.join.streams[stream].window, TupleWindow):
            rows = self.executor.count(stream)
        return Arrival(rows, max((one.latest for one in held), default=BEGINNING))

    def _plan(self, number: int) -> str | None:
        one = self.declared
        made_by = one.plan if one.plan != "pmjoin" else f"pmjoin by {one.partition_by}, {one.partitions} partitions"
        if not self.executor.epochs:
            self._observe_batch(number, range(len(self.query.join.streams)))
            self.executor.adopt(make_plan(self.model(), self._options()), "the first plan", made_by)
            return None
        present, options = self.executor.latest, self._options()
        if present.made_by != made_by:
            reason = f"it is declared as {made_by} now"
            self.executor.adopt(make_plan(self.model(), options), reason, made_by)
            return reason
        found = replan(present.plan, self.model(), options, tolerance=one.tolerance)
        if found is None:
            return None
        self.executor.adopt(found.plan, found.reason, made_by)
        return found.reason

    def _options(self) -> PlanOptions:
        head = head_bytes(self.query.join, self.query.join.everything)
        return plan_options(self.declared, head / self.batch_s())

    # ── statistics ─────────────────────────────────────────────────────────────────────────────────────────────

    def observe(self, at: str | None) -> None:
        """Add new batches to the statistics of the streams at a site, or of all streams."""
        streams = [n for n, one in enumerate(self.query.join.streams) if at in (None, one.site)]
        found = self.ledger.statistics(self.name)
        for number in range(statistics.known_batches(found, streams), self.executor.calendar.following):
            self._observe_batch(number, streams)

    def _observe_batch(self, number: int, streams: range | list[int]) -> None:
        found = self.ledger.statistics(self.name)
        for stream in streams:
            if stream in found and found[stream][0] >= number:
                continue
            known = statistics.all_of(found, len(self.query.join.streams), self.declared.half_life.total_seconds())
            observe(self.query.join, known, {stream: self.segments.read(stream, number)}, self._covered_s(number))
            self.ledger.save_statistics(self.name, stream, number, statistics.to_archive(known[stream]))

    def _covered_s(self, number: int) -> float:
        """The event time that a batch covers: its progress beyond the previous batch."""
        streams = range(len(self.query.join.streams))
        held = [one for stream in streams for one in self.segments.of(stream, number)]
        if not held:
            return 0.0
        calendar = self.executor.calendar
        before = calendar.horizon(number - 1) if number > calendar.first else BEGINNING
        begun = before if before > BEGINNING else min(one.earliest for one in held)
        return max((max(one.latest for one in held) - begun) / 1e6, _SHORTEST_S)

    def batch_s(self) -> float:
        """The mean event time covered by the batches in the ledger."""
        entries = self.executor.calendar.entries
        if len(entries) < 2:
            return max(self._covered_s(self.executor.calendar.first), _SHORTEST_S)
        return max((entries[-1].horizon - entries[0].horizon) / 1e6 / (len(entries) - 1), _SHORTEST_S)

    def seconds(self, number: int) -> float:
        """The event time of one batch."""
        return self._covered_s(number)

    def model(self) -> RateModel:
        """The rate model from measured statistics."""
        half_life_s = self.declared.half_life.total_seconds()
        found = self.ledger.statistics(self.name)
        return measured_model(
            self.query.join, statistics.all_of(found, len(self.query.join.streams), half_life_s)
        )  # fmt: skip
