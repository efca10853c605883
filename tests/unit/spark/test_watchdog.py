"""A driver without its JVM ends by itself: when it is gone, when it hangs, and when nobody would notice either."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from etl.spark.runner.watchdog import Watchdog
from etl.stack.supervision.processes import wait_until


@dataclass
class Fake:
    """A JVM that does as the test wants."""

    running: bool = True
    silent: threading.Event = field(default_factory=threading.Event)
    broken: bool = False
    killed: bool = False
    asked: int = 0

    def is_running(self) -> bool:
        if self.broken:
            raise RuntimeError("the watchdog's own fault")
        return self.running

    def answer(self) -> None:
        self.asked += 1
        if self.silent.is_set():
            raise ConnectionError

    def kill(self) -> None:
        self.killed = True


def watched(jvm: Fake) -> tuple[Watchdog, list[str]]:
    ends: list[str] = []
    dog = Watchdog(jvm, ends.append, look_s=0.01, silent_s=0.5)
    dog.start()
    return dog, ends


def test_a_jvm_that_is_gone_ends_the_driver_at_once() -> None:
    jvm = Fake()
    dog, ends = watched(jvm)
    assert wait_until(lambda: jvm.asked > 1, 60)
    assert dog.health() is None
    jvm.running = False
    assert wait_until(lambda: ends == ["its JVM is gone"], 60)
    assert dog.health() == "the JVM is gone"


def test_a_jvm_that_hangs_is_killed_and_health_says_so_before() -> None:
    jvm = Fake()
    dog, ends = watched(jvm)
    jvm.silent.set()
    assert wait_until(lambda: (dog.health() or "").startswith("the JVM has not answered"), 60)
    assert wait_until(lambda: bool(ends), 60)
    assert jvm.killed
    assert "not answered" in ends[0]


def test_a_watchdog_that_fails_ends_the_driver() -> None:
    jvm = Fake()
    _, ends = watched(jvm)
    jvm.broken = True
    assert wait_until(lambda: ends == ["its watchdog has ended"], 60)


def test_one_that_is_stopped_ends_nothing() -> None:
    dog, ends = watched(Fake())
    dog.stop()
    assert ends == []
