"""The content of the report of a batch of correlations, as frozen values.

    BatchReport ─┬─ streams       lines read, accepted, quarantined (by reason)
                 ├─ shut          input that could not be read, with the reason
                 ├─ correlations  tuples in, late, pairs out; state, and per unit; watermarks; scaling events
                 ├─ sites         bytes shipped by correlations over sites, and by other plans
                 └─ history       the batches before it, oldest first

Unknown keys are ignored, so that reports of later versions can be opened.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from etl.report.fields import BatchName, Moment, RawText, Rows, Seconds, Text

HISTORY_BATCHES = 60
State = Literal["reading", "decided", "loaded"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class StreamReport(_Value):
    """The input of one stream."""

    lines: Rows = 0
    accepted: Rows = 0
    quarantined: Rows = 0
    reasons: dict[Text, Rows] = {}
    segments: Rows = 0
    segment_bytes: Rows = 0


class ShutReport(_Value):
    """Input of one stream that could not be read: why, what to do, and the files with their reasons."""

    what: Text
    remedy: Text = ""
    files: dict[RawText, Text] = {}


class UnitReport(_Value):
    """State and work of one unit. `step` counts the binary joins of a correlation, the innermost first."""

    step: Rows
    unit: Rows
    side: Literal["left", "right"]
    subgroup: Rows = 0
    draining: bool = False
    tuples: Rows = 0
    bytes: Rows = 0
    runs: Rows = 0
    work: Rows = 0


class StateReport(_Value):
    tuples: Rows = 0
    bytes: Rows = 0
    runs: Rows = 0


class ScalingReport(_Value):
    """Units that were added to a subgroup or released from it, and the load that triggered it."""

    step: Rows
    side: Literal["left", "right"]
    subgroup: Rows = 0
    load: float
    added: tuple[Rows, ...] = ()
    released: tuple[Rows, ...] = ()


class WindowReport(_Value):
    """One window of documents: their distribution over joiners, and the number of pairs."""

    start: Text
    closed: bool = False
    documents: Rows = 0
    broadcast: Rows = 0
    found: Rows = 0
    cut: Rows = 0
    replication: float = 0.0
    maximal_load: float = 0.0
    gini: float = 0.0
    versions: tuple[Rows, ...] = ()  # of the partitions that its documents went by
    repartitions: Rows = 0


class DocumentsReport(_Value):
    """Figures that only correlations of documents have."""

    partitions: Rows = 0
    repartitions: Rows = 0
    repartitioned: bool = False
    updates: Rows = 0
    cut: Rows = 0
    constants: tuple[Text, ...] = ()
    left_out: tuple[Text, ...] = ()
    left_out_undecided: bool = False
    windows: tuple[WindowReport, ...] = ()


class CorrelationReport(_Value):
    """Figures of one correlation. Dictionaries have counts per alias of its SQL."""

    tuples: dict[Text, Rows] = {}
    selected: dict[Text, Rows] = {}
    late: dict[Text, Rows] = {}
    unmatchable: Rows = 0
    pairs: Rows = 0
    rows: Rows = 0
    groups: Rows = 0
    messages: Rows = 0
    probes: Rows = 0
    candidates: Rows = 0
    stored: Rows = 0
    expired: Rows = 0
    state: StateReport = StateReport()
    units: tuple[UnitReport, ...] = ()
    watermarks: dict[Text, Moment | None] = {}
    scaling: tuple[ScalingReport, ...] = ()
    documents: DocumentsReport | None = None  # None: SQL

    @property
    def late_tuples(self) -> int:
        return sum(self.late.values())

    @property
    def balance(self) -> float | None:
        """The fullest unit over the mean, the worst of all joins and sides; None without state."""
        sides: dict[tuple[int, str], list[int]] = {}
        for one in self.units:
            if not one.draining:
                sides.setdefault((one.step, one.side), []).append(one.bytes)
        return max((max(held) * len(held) / sum(held) for held in sides.values() if sum(held)), default=None)


class EdgeReport(_Value):
    """Shipments from one site to another: tuples of one stream, or of a join."""

    streams: tuple[Text, ...] = ()
    origin: Text
    destination: Text
    tuples: Rows = 0
    bytes: Rows = 0
    replayed: bool = False  # to fill the windows of a new plan


class SitesReport(_Value):
    """Bytes shipped by one correlation over sites for a batch, and by other plans."""

    rows: Rows = 0
    late: Rows = 0
    plan: Rows = 0
    shipped_bytes: Rows = 0
    shipped_tuples: Rows = 0
    replayed_bytes: Rows = 0
    edges: tuple[EdgeReport, ...] = ()
    otherwise: dict[Text, Rows] = {}


class Point(_Value):
    """One batch as a point of the trends and a line of the list."""

    batch: BatchName
    run_id: Text
    state: State
    finished_at: Moment
    accepted: Rows
    quarantined: Rows
    late: Rows
    pairs: Rows
    state_bytes: Rows
    units: Rows
    scaled: bool
    seconds: Seconds


class BatchReport(_Value):
    """Everything one report says."""

    batch: BatchName
    run_id: Text
    state: State
    started_at: Moment
    decided_at: Moment | None = None
    loaded_at: Moment | None = None
    seconds: dict[Text, Seconds] = {}
    streams: dict[Text, StreamReport] = {}
    shut: dict[Text, ShutReport] = {}
    correlations: dict[Text, CorrelationReport] = {}
    sites: dict[Text, SitesReport] = {}
    history: tuple[Point, ...] = ()

    @property
    def duration_s(self) -> float:
        return sum(self.seconds.values())

    @property
    def reasons(self) -> dict[str, int]:
        """Quarantined tuples by stream and reason."""
        return {
            f"{name}: {reason}": count
            for name, stream in self.streams.items()
            for reason, count in stream.reasons.items()
        }

    def point(self) -> Point:
        """This batch in one line."""
        every = self.correlations.values()
        return Point(
            batch=self.batch,
            run_id=self.run_id,
            state=self.state,
            finished_at=self.loaded_at or self.decided_at or self.started_at,
            accepted=sum(one.accepted for one in self.streams.values()),
            quarantined=sum(one.quarantined for one in self.streams.values()),
            late=sum(one.late_tuples for one in every),
            pairs=sum(one.pairs for one in every),
            state_bytes=sum(one.state.bytes for one in every),
            units=sum(len(one.units) for one in every),
            scaled=any(one.scaling for one in every),
            seconds=self.duration_s,
        )

    def trend(self) -> tuple[Point, ...]:
        """The history and this batch as its last point, each batch once."""
        earlier = {point.batch: point for point in self.history if point.batch != self.batch}
        return (*earlier.values(), self.point())[-HISTORY_BATCHES:]
