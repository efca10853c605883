"""Aggregate the results of all tasks into one decision: files, segments, figures, state changes of correlations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

import pyarrow as pa

from etl.adapters.ledger import DataFile
from etl.correlate.biclique.scaling import Change
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.wire import Message
from etl.streams.adhoc.evolve import GatheredQueries
from etl.streams.documents import values
from etl.streams.documents.evolve import GatheredDocuments
from etl.streams.state.state_files import StateRun
from etl.streams.storage.log import Segment
from etl.streams.tasks.plan import BatchPlan, CorrelationState


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of one Delta table; `root` is `streams/NAME`, `correlations/NAME` or `queries/NAME-ID`."""

    root: str
    file: DataFile


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a batch: everything that publishing and reports need."""

    files: tuple[TableFile, ...]
    views: Mapping[str, str]  # by correlation, the file of changes of its groups
    slices: tuple[tuple[int, str, int], ...]  # ordinal, digest, lines
    segments: tuple[Segment, ...]
    streams: Mapping[str, Mapping[str, Any]]
    correlations: Mapping[str, Mapping[str, Any]]
    queries: Mapping[str, Any] = field(default_factory=dict)  # figures of ad-hoc queries

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Decision:
        return cls(
            files=tuple(TableFile(one["root"], DataFile(**one["file"])) for one in value["files"]),
            views=value["views"],
            slices=tuple((ordinal, digest, lines) for ordinal, digest, lines in value["slices"]),
            segments=tuple(Segment(**one) for one in value["segments"]),
            streams=value["streams"],
            correlations=value["correlations"],
            queries=value.get("queries", {}),
        )

    def by_table(self) -> dict[tuple[str, str], tuple[DataFile, ...]]:
        """Files by root and table."""
        found: dict[tuple[str, str], list[DataFile]] = {}
        for one in self.files:
            found.setdefault((one.root, one.file.table), []).append(one.file)
        return {key: tuple(files) for key, files in sorted(found.items())}


@dataclass(frozen=True, slots=True)
class Evolved:
    """The changes of a batch to one correlation."""

    declared: Mapping[str, Any]
    state: CorrelationState  # after the batch
    added: tuple[StateRun, ...]
    removed: tuple[str, ...]
    moved: tuple[StateRun, ...] = ()  # runs that changed their unit
    expired: int = 0  # tuples
    changes: tuple[tuple[int, Change], ...] = ()  # step, scaling event


@dataclass(slots=True)
class GatheredCorrelation:
    """The tasks' results for one correlation."""

    arrived: dict[str, Counter[str]] = field(default_factory=dict)  # by alias: tuples, selected, late
    sums: Counter[str] = field(default_factory=Counter)
    work: Counter[tuple[int, int]] = field(default_factory=Counter)  # by step and unit
    pairs: Counter[int] = field(default_factory=Counter)  # by step
    added: list[StateRun] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    views: list[pa.Table] = field(default_factory=list)


@dataclass(slots=True)
class Gathered:
    """The results of all tasks of one try."""

    slices: list[tuple[int, str, int]] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)
    unreadable: dict[int, str] = field(default_factory=dict)  # the reason, by slice; these have changed, too
    lines: Counter[str] = field(default_factory=Counter)
    streams: dict[str, Counter[str]] = field(default_factory=dict)
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    files: list[TableFile] = field(default_factory=list)
    correlations: dict[int, GatheredCorrelation] = field(default_factory=dict)
    documents: dict[str, GatheredDocuments] = field(default_factory=dict)
    queries: GatheredQueries = field(default_factory=GatheredQueries)

    def of_documents(self, name: str) -> GatheredDocuments:
        return self.documents.setdefault(name, GatheredDocuments())

    def of(self, index: int) -> GatheredCorrelation:
        return self.correlations.setdefault(index, GatheredCorrelation())


def gather(plan: BatchPlan, messages: Iterable[Message], before: Gathered | None = None) -> Gathered:
    """Collect the messages of all tasks, beside those of an earlier round; raises the first error among them."""
    gathered = Gathered() if before is None else before
    for message in messages:
        if message.kind == "error":
            wire.raise_error(message)
        elif message.kind == "notes":
            gathered.of(int(message.name)).views.append(wire.rows_of(message))
        elif message.kind == "values":
            what, index, table = values.parse(message)
            gathered.of_documents(plan.documents[index].name).add_values(what, table)
        elif message.kind == "partials":
            gathered.queries.add_partials(message)
        elif message.kind == "result":
            _add(plan, gathered, message.name, message.json())
    return gathered


def _add(plan: BatchPlan, gathered: Gathered, what: str, value: Mapping[str, Any]) -> None:
    if what == "slice":
        gathered.slices.append((value["ordinal"], value["digest"], value["lines"]))
        gathered.lines[value["stream"]] += value["lines"]
        gathered.changed |= {value["ordinal"]} if value["changed"] else set()
        gathered.unreadable |= {value["ordinal"]: value["reason"]} if value["reason"] else {}
    elif what == "stream":
        counts = gathered.streams.setdefault(value["stream"], Counter())
        counts.update(accepted=value["accepted"], quarantined=value["quarantined"])
        gathered.reasons.setdefault(value["stream"], Counter()).update(value["reasons"])
        if value["file"] is not None:
            gathered.files.append(TableFile(f"streams/{value['stream']}", DataFile(**value["file"])))
    elif what == "segment":
        gathered.segments.append(Segment(**value))
    elif what in ("late", "results"):
        file = DataFile(**value["file"])
        gathered.files.append(TableFile(f"correlations/{plan.correlations[value['correlation']].name}", file))
        if what == "results":
            gathered.of(value["correlation"]).sums["rows"] += file.rows
    elif what == "document_file":
        gathered.files.append(TableFile(f"correlations/{value['correlation']}", DataFile(**value["file"])))
    elif what in ("assigned", "stored", "joined"):
        gathered.of_documents(value["correlation"]).add(what, value)
    elif what in ("query_file", "query_failed", "query_late", "queries"):
        gathered.queries.add(what, value)
        if what == "query_late":
            gathered.files.append(TableFile(f"streams/{value['stream']}", DataFile(**value["file"])))
    elif what == "arrived":
        _add_arrived(gathered.of(value["correlation"]), value)
    else:
        assert what == "unit", f"nobody tells {what}"
        _add_unit(gathered.of(value["correlation"]), value)


def _add_arrived(gathered: GatheredCorrelation, value: Mapping[str, Any]) -> None:
    gathered.sums.update(unmatchable=value["unmatchable"], messages=value["messages"])
    if value["alias"] is not None:
        counts = gathered.arrived.setdefault(value["alias"], Counter())
        counts.update({name: value[name] for name in ("tuples", "selected", "late")})


def _add_unit(gathered: GatheredCorrelation, value: Mapping[str, Any]) -> None:
    gathered.added += [StateRun(**one) for one in value["added"]]
    gathered.removed += value["removed"]
    if "work" in value:
        gathered.work[value["step"], value["unit"]] += value["work"]
        gathered.pairs[value["step"]] += value["pairs"]
        names = ("stored", "probes", "unchecked", "skipped", "candidates")
        gathered.sums.update({name: value[name] for name in names})


def change_json(step: int, change: Change) -> dict[str, Any]:
    """A scaling event for people."""
    side, subgroup, load, added, released = astuple(change)
    shown = {"side": side, "subgroup": subgroup, "load": round(load, 3)}
    return {"step": step, **shown, "added": list(added), "released": list(released)}
