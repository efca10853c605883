"""A step in the driver always ends with a word: whoever asked for it must not wait for ever."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from etl.errors import Busy, PostgresUnavailable
from etl.spark.runner import service
from etl.spark.runner.service import Work


class Context:
    """Stands for a context whose JVM is gone, or not."""

    def __init__(self, broken: bool) -> None:
        self.broken = broken

    @property
    def sparkContext(self) -> Context:  # noqa: N802 - as Spark calls it
        return self

    def setJobGroup(self, *_: Any, **__: Any) -> None:  # noqa: N802
        if self.broken:
            raise ConnectionRefusedError("the JVM is gone")


def events(work: Any, *, broken: bool = False) -> list[dict[str, Any]]:
    spark = cast(Any, Context(broken))
    return [json.loads(line) for line in Work(spark, "ingest", "orders run", work).events()]


def test_a_step_whose_jvm_is_gone_before_it_begins_says_so() -> None:
    (only,) = events(lambda _: {}, broken=True)
    assert only["error"]["kind"] == "transient"
    assert "ConnectionRefusedError" in only["error"]["message"]


def test_a_thread_that_ended_without_a_word_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_HEARTBEAT_S", 0.05)
    monkeypatch.setattr(Work, "_run", lambda _: None)
    assert events(lambda _: {})[-1]["error"]["message"].startswith("ingest ended in the driver without a result")


def test_a_driver_that_may_not_begin_yet_waits_and_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_PATIENCE_S", 0.0)
    errors = iter([PostgresUnavailable("here", "it is starting"), Busy("a step with a Spark of its own")])

    class Starting:
        def prepare(self) -> None:
            if (wrong := next(errors, None)) is not None:
                raise wrong

    service.prepare(cast(Any, Starting()))
    assert next(errors, None) is None, "it met all of them"
