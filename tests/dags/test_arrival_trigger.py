"""The watcher of a landing folder outlives whatever goes wrong while it looks: nobody starts it again."""

from __future__ import annotations

from pathlib import Path

from tests.support.airflow_python import ask

SCRIPT = """
import asyncio
from etl.airflow.triggers import arrival
from etl.pipeline.input.arrival import Look

arrival._AGAIN_S = 0.01
wrong = iter([RuntimeError("?"), KeyError("x"), OSError(24, "Too many open files"), MemoryError()])

class Watched:
    pipeline = "orders"
    def listing(self):
        for error in wrong:
            raise error
        return ("file",)
    def look(self, listing, now):
        return Look(due=True, mark=(1, "loaded"))

class Trigger(arrival.ArrivalTrigger):
    begun = 0
    def _arrival(self):
        Trigger.begun += 1
        if Trigger.begun == 1:
            raise ValueError("a setting that nobody foresaw")
        return Watched()

async def first():
    async for event in Trigger("orders", "/", "jsonl", 0.0, poll_s=0.0).run():
        return event.payload

print(asyncio.run(asyncio.wait_for(first(), 60)), next(wrong, None))
"""


def test_no_error_ends_the_watcher(tmp_path: Path) -> None:
    assert ask(SCRIPT, tmp_path)[-1] == "{'pipeline': 'orders', 'files': 1} None"
