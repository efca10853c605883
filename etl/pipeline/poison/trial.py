"""A batch whose tasks can be tried on all of its input, or on some, and the error when that does not help."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pyarrow.parquet as pq

from etl.adapters.claims import UNKNOWN, WAITING
from etl.adapters.landing import Slice, format_of
from etl.adapters.losses import Part
from etl.contract.model import Format
from etl.errors import TerminalError
from etl.pipeline import decision as decisions
from etl.pipeline.decision import Gathered
from etl.pipeline.process_state import process_state
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.line_choice import LineChoice
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.read import waiting_rows

if TYPE_CHECKING:
    from etl.pipeline.microbatch import Executor


class NotTheLines(TerminalError):
    """Tasks are lost, and leaving out input does not help."""

    def __init__(self, pipeline: str, batch: int, why: str, cause: str) -> None:
        super().__init__(pipeline, batch, why, cause)
        self.pipeline, self.batch, self.why, self.cause = pipeline, batch, why, cause

    def __str__(self) -> str:
        return (
            f"tasks of batch {self.batch} of {self.pipeline} are lost ({self.cause}), {self.why}; nothing was decided"
        )


class Heard(Protocol):
    """The results of a try, as far as the search needs them."""

    @property
    def changed(self) -> Collection[int]:
        """Slices whose files changed while they were read."""
        ...


T = TypeVar("T", bound=Heard)
T_co = TypeVar("T_co", bound=Heard, covariant=True)


class Trial(Protocol[T_co]):
    """A batch whose tasks can be tried on all of its lines, or on some."""

    @property
    def name(self) -> str: ...

    @property
    def batch(self) -> int: ...

    @property
    def slices(self) -> Sequence[Slice]: ...

    def source(self, one: Slice) -> tuple[Path, Format]:
        """The folder of a slice's file, and the stream's format."""
        ...

    def backlog(self) -> Sequence[Part]:
        """All rows of every file of the backlog that is tried again."""
        ...

    def settled(self) -> Mapping[int | str, frozenset[int]]:
        """Rows of these files that wait no longer: they need not be read."""
        ...

    def run(self, lines: LineChoice, only: Collection[int | str] | None) -> T_co:
        """One try, with files of its own; `only` these slices and files. Raises `TaskLost` or `DriverLost`."""
        ...


@dataclass(frozen=True, slots=True)
class PlanTrial:
    """The batch of a pipeline."""

    executor: Executor
    plan: BatchPlan

    @property
    def name(self) -> str:
        return self.plan.pipeline.name

    @property
    def batch(self) -> int:
        return self.plan.batch

    @property
    def slices(self) -> Sequence[Slice]:
        return self.plan.slices

    def source(self, one: Slice) -> tuple[Path, Format]:
        return self.plan.places.landing, format_of(one.file.name, self.plan.pipeline.stream.source.format)

    def backlog(self) -> Sequence[Part]:
        files = [(one.path, self.plan.places.waiting(one.path)) for one in self.plan.backlog]
        return [(name, 1, rows) for name, path in files if (rows := pq.read_metadata(path).num_rows)]

    def settled(self) -> Mapping[int | str, frozenset[int]]:
        plan = self.plan
        index = process_state().claims(plan.places.claims, plan.claims)
        found: dict[int | str, frozenset[int]] = {}
        for one in plan.backlog:
            rows = waiting_rows(plan.places, plan.pipeline.stream, one.path)
            held = index.find(rows[wire.KEY_LO].to_numpy(), rows[wire.KEY_HI].to_numpy())
            waits = np.isin(held.state, (WAITING, UNKNOWN)) & (held.batch == one.batch)
            if not waits.all():
                found[one.path] = frozenset((np.flatnonzero(~waits) + 1).tolist())
        return found

    def run(self, lines: LineChoice, only: Collection[int | str] | None) -> Gathered:
        plan = replace(self.plan, attempt=secrets.token_hex(4), lines=lines)
        if only is not None:
            slices = tuple(one for one in plan.slices if one.ordinal in only)
            plan = replace(plan, slices=slices, backlog=tuple(one for one in plan.backlog if one.path in only))
        return decisions.gather(self.executor.run(plan))
