"""Tasks that do not survive certain lines."""

from __future__ import annotations

from collections import Counter
from typing import Any

from etl.pipeline.tasks import wire
from etl.pipeline.tasks.in_process import InProcess
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.read import read
from etl.pipeline.tasks.wire import Message
from tests.support.site import order

DEADLY = b"kills"


def deadly_lines(plan: BatchPlan) -> int:
    """Lines that would be parsed and have the deadly word."""
    count = 0
    for reader in range(plan.readers):
        for message in read(plan, reader):
            if message.kind == "rows":
                rows = wire.rows_of(message).select([wire.RAW, wire.REASONS]).to_pylist()
                count += sum(DEADLY in row[wire.RAW] and "poison" not in row[wire.REASONS] for row in rows)
    return count


class Mortal(InProcess):
    """Is lost with any plan that holds a deadly line; `error` says how."""

    def __init__(self, error: Exception) -> None:
        super().__init__(slots=2)
        self.error, self.runs = error, 0

    def run(self, plan: BatchPlan) -> list[Message]:
        self.runs += 1
        if deadly_lines(plan):
            raise self.error
        return super().run(plan)


def deadly(number: int) -> dict[str, Any]:
    return order(number, note=DEADLY.decode())


def parsed_lines(plan: BatchPlan) -> Counter[str]:
    """Lines that would be parsed, by file; poison is not."""
    count: Counter[str] = Counter()
    for reader in range(plan.readers):
        for message in read(plan, reader):
            if message.kind == "rows":
                rows = wire.rows_of(message).select([wire.SOURCE, wire.REASONS]).to_pylist()
                count.update(row[wire.SOURCE] for row in rows if "poison" not in row[wire.REASONS])
    return count


class Overburdened(InProcess):
    """Is lost with any plan that parses more than so many lines of these files together; no line kills by itself."""

    def __init__(self, error: Exception, most: int, *labels: str) -> None:
        super().__init__(slots=2)
        self.error, self.most, self.labels, self.runs = error, most, labels, 0

    def run(self, plan: BatchPlan) -> list[Message]:
        self.runs += 1
        count = parsed_lines(plan)
        if sum(count[label] for label in self.labels) > self.most:
            raise self.error
        return super().run(plan)
