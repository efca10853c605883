"""Messages between the tasks of a batch, and to the driver. They travel as those of pipelines do (`etl.pipeline.wire`).

tuples   thin Arrow columns for one unit of one step; the address is in the message's name
result   what a task tells the driver, as JSON; passed on by every stage it meets
view     changes of a correlation's groups, as Arrow, for the driver
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from etl.correlate.biclique.join import by_unit
from etl.correlate.biclique.routing import Routing
from etl.correlate.model import Side, Tuples, opposite
from etl.pipeline.wire import Message, json_message, rows_message, rows_of
from etl.streams.plan import BatchPlan

Role = Literal["store", "probe", "rows"]
_UNNEEDED: dict[Role, tuple[str, ...]] = {"store": ("low", "high"), "probe": ("value",), "rows": ()}


@dataclass(frozen=True, slots=True)
class Address:
    """Where tuples go: a unit of a step, and what it does with them. `side` is the one that the unit stores."""

    correlation: int
    step: int
    unit: int
    side: Side
    role: Role

    @property
    def text(self) -> str:
        return json.dumps(astuple(self))

    @classmethod
    def parse(cls, text: str) -> Address:
        return cls(*json.loads(text))


def deliveries(
    plan: BatchPlan, correlation: int, step: int, side: Side, tuples: Tuples, routing: Routing
) -> Iterator[Message]:
    """Tuples of one side, to the units that store them and to those that they probe."""
    for role, targets, stored in (("store", routing.store, side), ("probe", routing.probe, opposite(side))):
        columns = replace(tuples, **{name: getattr(tuples, name)[:0] for name in _UNNEEDED[role]})  # type: ignore[index]
        for unit, rows in by_unit(*targets.expand()).items():
            address = Address(correlation, step, unit, stored, role)  # type: ignore[arg-type]
            yield addressed(plan, address, columns.take(rows).to_batch())


def addressed(plan: BatchPlan, address: Address, rows: pa.RecordBatch) -> Message:
    part = plan.task_of(address.correlation, address.step, address.unit)
    return replace(rows_message(rows, part), name=address.text)


def tuples_in(message: Message) -> Tuples:
    (batch,) = batches_in(message)
    return Tuples.from_batch(batch)


def batches_in(message: Message) -> list[pa.RecordBatch]:
    return list(rows_of(message).combine_chunks().to_batches())


def told(what: str, value: Any) -> Message:
    """Something for the driver."""
    return json_message("result", value, what)


def view(correlation: int, groups: pa.Table) -> Message:
    """Changes of a correlation's groups, for the driver."""
    whole = groups.combine_chunks().to_batches()
    return replace(rows_message(whole[0], 0), kind="notes", name=str(correlation))
