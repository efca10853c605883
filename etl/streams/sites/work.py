"""Correlations over sites after a decision: begin batches, work at sites, gather results (ADR 89).

    follow   under the lock: begin newly decided batches, each with its plan
    work     at one site or at all: every step that can be done; reports steps that wait for an unreachable site
    gather   under the lock: publish finished batches in order; remove files that are no longer needed

A call that was interrupted is resumed by the next: entries and plans are rows, steps are files, publishing is by batch.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from etl.correlate.multiway.errors import RootNotReachable
from etl.correlate.multiway.execution.folder import SiteAway, SiteFolder
from etl.correlate.multiway.execution.report import RunReport
from etl.correlate.multiway.query import Site
from etl.model import Progress
from etl.pipeline.microbatch import Checkpoint, no_fault
from etl.streams.sites import figures, publishing
from etl.streams.sites.change import declaration, refuse_change
from etl.streams.sites.ledger import KnownOverSites, SiteLedger
from etl.streams.sites.running import Running
from etl.streams.tasks.plan import Places

if TYPE_CHECKING:
    from etl.streams.declared import Catalog


_LOOK_AGAIN_S = 0.2
_PATIENCE_S = 60.0  # wait for another worker of the same site


@dataclass(frozen=True)
class SiteWork:
    """All correlations over sites, while the ledger's connection is open."""

    catalog: Catalog
    places: Places
    ledger: SiteLedger
    progress: Progress
    checkpoint: Checkpoint = no_fault
    _running: dict[str, Running] = field(default_factory=dict)

    @cached_property
    def folders(self) -> dict[str, SiteFolder]:
        return {one.name: SiteFolder(Site(one.name, one.root)) for one in self.catalog.sites.found}

    def away(self) -> list[str]:
        """Known sites that are unreachable now."""
        return [name for name in self.ledger.sites() if name in self.folders and not self.folders[name].is_there()]

    def absent(self) -> list[str]:
        """Sites of streams that are not writable now. A new site gets its marker file."""
        used = {one.site for one in self.catalog.streams if one.site is not None}
        return [name for name in sorted(used) if not self._there(name)]

    def _there(self, name: str) -> bool:
        if name in self.ledger.sites():
            return self.folders[name].is_there()
        try:
            self.folders[name].create()
        except RootNotReachable as error:
            self.progress(str(error))
            return False
        self.ledger.add_site(name, self.folders[name].site.root)
        return True

    # ── 1. follow ──────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self) -> None:
        """Begin batches decided since the last call."""
        self.forget_undeclared()
        last = self.ledger.last_decided()
        if last is None:
            return
        for name in self._ready(last):
            one = self._run(name)
            publishing.prepare(self.places, one)
            self._begin(one, last)

    def _begin(self, one: Running, last: int) -> None:
        try:
            while one.known.since + one.executor.calendar.following <= last:
                self.checkpoint(f"before a batch of {one.name} begins at its sites")
                if (reason := one.begin()) is not None:
                    self.progress(f"{one.name} changes its plan: {reason}")
        except SiteAway as away:
            self.progress(f"{one.name}: {away}")

    def forget_undeclared(self) -> None:
        """Remove correlations whose file was removed; a file with an error still counts as declared."""
        if self.catalog.broken:
            return
        for name in sorted(self.ledger.known().keys() - {one.name for one in self.catalog.over_sites}):
            self.ledger.remove(name)
            self.progress(f"{name} is not declared any more: what sites hold for it goes")

    def _ready(self, last: int) -> Iterator[str]:
        """Correlations whose sites have all been reached before; a new one begins with the newest batch."""
        known = self.ledger.known()
        for declared in self.catalog.over_sites:
            now = declaration(declared, self.catalog)
            if declared.name in known:
                refuse_change(declared.name, known[declared.name].declared, now)
                self.ledger.redeclare(declared.name, now)
            elif all(self._there(site) for site in sorted(set(now["sites"].values()))):
                self.ledger.add(declared.name, f"{declared.name}-{secrets.token_hex(4)}", now, last)
                self.progress(f"{declared.name} begins with batch {last} at its sites")
            else:
                continue
            yield declared.name

    # ── 2. work ────────────────────────────────────────────────────────────────────────────────────────────────

    def work(self, at: str | None = None, only: str | None = None) -> dict[str, Any]:
        """Do all possible work at one site or all, for one correlation or all; returns shipped and waiting figures."""
        reports = {}
        sites = list(self.folders) if at is None else [at]
        for name in [one for one in self._begun() if only in (None, one)]:
            with self.ledger.working_at([f"{site} {name}" for site in sites], _PATIENCE_S):
                one = self._run(name)
                self.checkpoint(f"before the sites of {name} work")
                reports[name] = one.executor.run(at)
                self.checkpoint(f"after the sites of {name} work")
                self._observe(one, at)
                self._report_progress(name, reports[name])
        return figures.of_work(at, reports)

    def work_until_done(self, at: str, only: str | None, patience_s: float) -> dict[str, Any]:
        """Repeat `work` until nothing is left to do here, or until other sites make no progress for `patience_s`."""
        total = self.work(at, only)
        last_progress = time.monotonic()
        while total["waiting"] and not set(total["waits_for"]) <= set(self.away()):
            if time.monotonic() - last_progress > patience_s:
                break
            time.sleep(_LOOK_AGAIN_S)
            more = self.work(at, only)
            if more["shipped_bytes"] or more["finished"] or more["waiting"] < total["waiting"]:
                last_progress = time.monotonic()
            total = figures.added(total, more)
        return total

    def unfinished(self) -> bool:
        """Whether some batch that has begun, or is due, is not in its table yet."""
        last = self.ledger.last_decided()
        return any(
            last is not None and one.since + one.published <= last
            for one in self.ledger.known().values()
            if one.name in self._begun()
        )

    def _observe(self, one: Running, at: str | None) -> None:
        try:
            one.observe(at)
        except SiteAway as away:
            self.progress(f"{one.name}: {away}")

    def _report_progress(self, name: str, report: RunReport) -> None:
        for site in sorted(set(report.waits_for) & set(self.away())):
            steps = sum(1 for one in report.waiting if one.site == site)
            self.progress(f"{name}: site {site!r} is away; {steps} steps wait for it, nothing is lost")
        if report.sent:
            sent = sum(one.bytes for one in report.sent)
            tuples = sum(one.tuples for one in report.sent)
            self.progress(f"{name}: {sent:,} bytes with {tuples:,} tuples crossed in {len(report.sent)} files")

    # ── 3. gather ──────────────────────────────────────────────────────────────────────────────────────────────

    def gather(self) -> dict[str, Any]:
        """Publish finished batches; returns the number of rows by correlation."""
        gathered = {}
        for name in self._begun():
            one = self._run(name)
            try:
                gathered[name] = sum(self._publish(one))
            except SiteAway as away:
                self.progress(f"{name}: {away}")
        return gathered

    def _publish(self, one: Running) -> Iterator[int]:
        number, unfinished = one.known.published, one.executor.unfinished
        until = min(unfinished, default=one.executor.calendar.following)
        for finished in range(number, until):
            self.checkpoint(f"before results of {one.name} over sites are published")
            counts = publishing.publish(self.places, one, finished)
            self.checkpoint(f"after results of {one.name} over sites are published")
            self.ledger.publish(one.name, finished, counts | figures.costs(one, finished))
            if one.declared.target is not None:
                one.executor.discard(finished)
            yield counts["rows"]
        self.ledger.set_live(one.name, one.executor.forget(max(until, number)))

    def _begun(self) -> list[str]:
        known = self.ledger.known()
        return [one.name for one in self.catalog.over_sites if one.name in known]

    def _run(self, name: str) -> Running:
        """The correlation's executor in this process, for its state in the ledger."""
        if name not in self._running:
            declared = next(one for one in self.catalog.over_sites if one.name == name)
            known: KnownOverSites = self.ledger.known()[name]
            self._running[name] = Running.of(
                declared, known, self.catalog, self.places, self.folders, self.ledger
            )  # fmt: skip
        return self._running[name]
