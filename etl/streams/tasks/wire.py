"""Messages between the tasks of a batch, and to the driver, transported like those of `etl.pipeline.tasks.wire`.

tuples   thin Arrow columns for one unit of one step; the address is in the message's name
result   a task's report to the driver, as JSON; forwarded by later stages
view     changes of a correlation's groups, as Arrow, for the driver
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from etl.correlate.biclique.join import by_unit
from etl.correlate.biclique.routing import Routing, Targets
from etl.correlate.model import Side, Tuples, opposite
from etl.pipeline.tasks.wire import Message, json_message, rows_message, rows_of
from etl.streams.tasks.plan import BatchPlan

Role = Literal["store", "probe", "rows"]
_UNNEEDED: dict[Role, tuple[str, ...]] = {"store": ("low", "high"), "probe": ("value",), "rows": ()}


@dataclass(frozen=True, slots=True)
class Address:
    """The target of tuples: units of a step, all in one task, and the action. `side` is the units' stored side."""

    correlation: int
    step: int
    units: tuple[int, ...]
    side: Side
    role: Role

    @property
    def text(self) -> str:
        return json.dumps(astuple(self))

    @classmethod
    def parse(cls, text: str) -> Address:
        correlation, step, units, side, role = json.loads(text)
        return cls(correlation, step, tuple(units), side, role)


def deliveries(
    plan: BatchPlan, correlation: int, step: int, side: Side, tuples: Tuples, routing: Routing
) -> Iterator[Message]:
    """Send tuples of one side to the units that store them and to those that they probe."""
    yield from _sent(plan, Address(correlation, step, (), side, "store"), tuples, routing.store)
    yield from _sent(plan, Address(correlation, step, (), opposite(side), "probe"), tuples, routing.probe)


def _sent(plan: BatchPlan, address: Address, tuples: Tuples, targets: Targets) -> Iterator[Message]:
    """One message per group of units and task: units of one task share the tuples."""
    columns = replace(tuples, **{name: getattr(tuples, name)[:0] for name in _UNNEEDED[address.role]})
    for group, rows in by_unit(np.arange(len(targets.group)), targets.group).items():
        tasks: dict[int, list[int]] = {}
        for unit in targets.groups[group]:
            tasks.setdefault(plan.task_of(address.correlation, address.step, unit), []).append(unit)
        batch = columns.take(rows).to_batch()
        for units in tasks.values():
            yield addressed(plan, replace(address, units=tuple(units)), batch)


def addressed(plan: BatchPlan, address: Address, rows: pa.RecordBatch) -> Message:
    part = plan.task_of(address.correlation, address.step, address.units[0])
    return replace(rows_message(rows, part), name=address.text)


def tuples_in(message: Message) -> Tuples:
    (batch,) = batches_in(message)
    return Tuples.from_batch(batch)


def batches_in(message: Message) -> list[pa.RecordBatch]:
    return list(rows_of(message).combine_chunks().to_batches())


def result(what: str, value: Any) -> Message:
    """A report to the driver."""
    return json_message("result", value, what)


def view(correlation: int, groups: pa.Table) -> Message:
    """Changes of a correlation's groups, for the driver."""
    whole = groups.combine_chunks().to_batches()
    return replace(rows_message(whole[0], 0), kind="notes", name=str(correlation))
