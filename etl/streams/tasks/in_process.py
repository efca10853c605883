"""Run a batch's tasks in this process, one after the other: the tasks that Spark runs, without Spark."""

from __future__ import annotations

from collections import defaultdict

from etl.errors import FrontstageError
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.wire import Message
from etl.streams.tasks.dispatch import dispatch
from etl.streams.tasks.join import join
from etl.streams.tasks.plan import BatchPlan


class InProcess:
    """An executor without workers."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots

    def run(self, plan: BatchPlan) -> list[Message]:
        try:
            messages = [message for reader in range(plan.readers) for message in dispatch(plan, reader)]
            for stage in range(plan.stages):
                shares: dict[int, list[Message]] = defaultdict(list)
                for message in messages:
                    shares[message.part].append(message)
                messages = [one for task in range(plan.tasks) for one in join(plan, stage, task, shares[task])]
        except FrontstageError as error:
            return [wire.error_message(error)]
        return messages
