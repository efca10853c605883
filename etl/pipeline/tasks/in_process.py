"""Run a batch's tasks in this process, one after the other: the tasks that Spark runs, without Spark.

For tests of the protocol, and for debugging one batch.
"""

from __future__ import annotations

from collections import defaultdict

from etl.errors import FrontstageError, TerminalError
from etl.pipeline.input.topic_input import Fetch
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.read import read
from etl.pipeline.tasks.route import route
from etl.pipeline.tasks.wire import Message


class InProcess:
    """An executor without workers."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots

    def fetch(self, wanted: Fetch) -> None:
        raise TerminalError(f"topic {wanted.topic!r} is read by Spark's source, and here is no Spark")

    def run(self, plan: BatchPlan) -> list[Message]:
        shares: dict[int, list[Message]] = defaultdict(list)
        try:
            for reader in range(plan.readers):
                for message in read(plan, reader):
                    shares[message.part].append(message)
            return [message for router in range(plan.routers) for message in route(plan, router, shares[router])]
        except FrontstageError as error:
            return [wire.error_message(error)]
