"""Make a pipeline ready to run: its file, the types of its masters, and the tables it writes.

    file ─▶ Pipeline ─▶ masters pinned once: their types ─▶ ResolvedPipeline ─▶ Delta tables, dimensions, mart

The declaration is compared with the last one in the ledger; an incompatible change is refused before anything is
written. A process prepares a pipeline once, and again when its file changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from etl.adapters import mart
from etl.adapters.delta.log import DeltaLog
from etl.adapters.great_expectations.audit import Audit
from etl.adapters.ledger import Writer
from etl.contract.dump import as_dict
from etl.contract.evolve import compatible, moved_masters
from etl.contract.load import load_all, mistake_of
from etl.contract.model import Pipeline
from etl.contract.resolve import ResolvedPipeline, check_against
from etl.contract.tables import backlog_schema, fact_schema, mart_schema, primary_key, quarantine_schema
from etl.errors import TerminalError
from etl.masters.masters import PinnedMaster
from etl.masters.wiring import masters_of
from etl.model import Progress
from etl.pipeline.engine import Engine
from etl.pipeline.loading.dimensions import Dimensions
from etl.pipeline.process_state import process_state
from etl.pipeline.tasks.plan import BACKLOG, FACT, QUARANTINE, Places
from etl.settings import Settings


class UnknownPipeline(TerminalError):
    """A name that no file declares."""

    exit_code = 64

    def __init__(self, name: str, known: tuple[str, ...], folder: str) -> None:
        super().__init__(name, known, folder)
        self.name, self.known, self.folder = name, known, folder

    def __str__(self) -> str:
        return f"{self.name!r} is not a pipeline; {self.folder} declares {', '.join(self.known) or 'none'}"


class OnTwoDisks(TerminalError):
    """Landing folder and archive are on different file systems."""

    exit_code = 78

    def __init__(self, landing: str, archive: str) -> None:
        super().__init__(landing, archive)
        self.landing, self.archive = landing, archive

    def __str__(self) -> str:
        return (
            f"the landing folder {self.landing} and the archive {self.archive} are on different file systems, but "
            "files that were read are renamed from there to here; set FRONTSTAGE_ARCHIVE to a folder beside the first"
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pipeline whose tables exist."""

    resolved: ResolvedPipeline
    places: Places
    delta: DeltaLog
    engine: Engine
    dimensions: Dimensions
    audits: Audit


_ALWAYS = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Preparer:
    """Prepares the pipelines of one site."""

    settings: Settings
    dsn: str = field(repr=False)

    def declared(self, name: str) -> Pipeline:
        """The pipeline of this name; raises the first error in its file."""
        loaded = load_all(self.settings.pipelines, self.settings.var)
        for pipeline in loaded.pipelines:
            if pipeline.name == name:
                return pipeline
        wrong = mistake_of(name, loaded, self.settings.pipelines)
        if wrong is not None:
            raise wrong
        raise UnknownPipeline(name, tuple(one.name for one in loaded.pipelines), self.settings.pipelines.name)

    def prepare(self, pipeline: Pipeline, writer: Writer, now: datetime, progress: Progress) -> Prepared:
        """Everything a batch needs; creates missing tables."""
        known = process_state().prepared.get(self._key(pipeline))
        if known is not None and known[0] == pipeline:
            ready: Prepared = known[1]
            return ready
        engine = self._engine(pipeline)
        with engine.pinned(f"{pipeline.name} prepare", now, progress) as pinned:
            schemas = {one.master.name: flat_schema(one) for one in pinned}
        prepared = self._make(check_against(pipeline, schemas), writer)
        process_state().prepared[self._key(pipeline)] = (pipeline, prepared)
        return prepared

    def _key(self, pipeline: Pipeline) -> tuple[Path, str, str]:
        return (self.settings.warehouse, pipeline.name, self.settings.model_dump_json())

    def _engine(self, pipeline: Pipeline) -> Engine:
        masters = masters_of(self.settings, pipeline.masters, self.dsn)
        return Engine(pipeline.name, masters, self.settings, folder=self.settings.var / "front-stage")

    def _make(self, resolved: ResolvedPipeline, writer: Writer) -> Prepared:
        pipeline, own = resolved.pipeline, self.settings
        before = writer.ledger.declared()
        if before:
            compatible(before, pipeline)  # raises on an incompatible change
        places = places_of(own, pipeline)
        require_one_disk(places.landing, places.archive)
        delta = process_state().delta_log(places.tables, f"frontstage-{pipeline.name}")
        delta.create(FACT, fact_schema(resolved))
        delta.create(QUARANTINE, quarantine_schema())
        delta.create(BACKLOG, backlog_schema(pipeline))
        dimensions = Dimensions(delta, resolved.masters)
        dimensions.create(pipeline.masters, unknown=pipeline.after_grace == "unknown")
        tables = {one.name: (one, mart_schema(resolved, one), primary_key(pipeline, one)) for one in pipeline.mart}
        mart.prepare(self.dsn, pipeline.name, tables)
        if before and moved_masters(before, pipeline):  # versions of another table say nothing about waiting events
            writer.ledger.retry_waiting(*_ALWAYS, writer.epoch)
        writer.ledger.declare(as_dict(pipeline))
        return Prepared(resolved, places, delta, self._engine(pipeline), dimensions, audit_of(own))


def require_one_disk(landing: Path, archive: Path) -> None:
    """Raise unless files can be renamed from the landing folder into the archive; shut folders are told later."""
    here, there = _disk(landing), _disk(archive)
    if here is not None and there is not None and here != there:
        raise OnTwoDisks(str(landing), str(archive))


def _disk(folder: Path) -> int | None:
    """The file system of a folder, or of the one in which it will be made; None where that cannot be told."""
    for path in (folder, *folder.parents):
        try:
            return path.stat().st_dev
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None


def audit_of(settings: Settings) -> Audit:
    """Where the audits of a site keep their results and pages."""
    return Audit(settings.var / "audit", settings.data_docs, settings.reports_kept)


def places_of(settings: Settings, pipeline: Pipeline) -> Places:
    """Where a pipeline keeps what it writes."""
    landing, archive = pipeline.stream.source.landing, settings.archive / pipeline.name
    return Places.under(settings.warehouse / pipeline.name, landing, archive)


def flat_schema(pinned: PinnedMaster) -> pa.Schema:
    """The columns of a master's table, a composite key as its parts."""
    key, *columns = pinned.schema
    parts = list(key.type) if len(pinned.master.key_columns) > 1 else [key]
    return pa.schema(
        [
            *(
                part.with_name(name).with_nullable(False)
                for part, name in zip(parts, pinned.master.key_columns, strict=True)
            ),
            *columns,
        ]
    )
