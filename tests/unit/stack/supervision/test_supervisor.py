"""Services that come back: ends are counted by cause and time, none is given up, and no error ends the watch."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from typing import Any, cast

from etl.stack.supervision.probe import Probe
from etl.stack.supervision.processes import Guarded, wait_until
from etl.stack.supervision.supervisor import EXCUSED_S, FAILED_PAUSE_S, FORGIVEN, SupervisedService, Watch


@dataclass
class Running:
    """Stands for a guarded service whose end the test decides."""

    code: int | None = None

    def poll(self) -> int | None:
        return self.code

    def ask_to_stop(self) -> None:
        pass

    def stop(self) -> int:
        return 0


class Hanging(Running):
    """One that has to be ended."""

    def ask_to_stop(self) -> None:
        self.code = 137


def guarded(code: int | None = None) -> Guarded:
    return cast(Guarded, Running(code))


def kept(name: str = "service", needs: tuple[SupervisedService, ...] = (), **given: Any) -> SupervisedService:
    return SupervisedService(name, given.get("begin", guarded), given.get("guarded", guarded()), "running", needs)


def test_a_service_that_keeps_ending_is_called_failed_and_still_tried() -> None:
    one, now = kept(begin=lambda: guarded(1), guarded=guarded(1)), 0.0
    for _ in range(2 * FORGIVEN + 2):
        one.look(now)
        now += 20
    assert one.status == "failed"
    one.begin = guarded
    one.look(one.due + 0.1)
    assert one.status == "running"


def test_causes_are_counted_apart() -> None:
    one = kept()
    for end in range(FORGIVEN):
        one.ended(float(end), "exit code 1")
    one.ended(FORGIVEN + 1.0, "exit code 9")
    assert one.status == "restarting", "another cause has tries of its own"
    one.ended(FORGIVEN + 2.0, "exit code 1")
    assert (one.status, one.due) == ("failed", FORGIVEN + 2.0 + FAILED_PAUSE_S)
    one.ended(10_000.0, "exit code 1")
    assert one.status == "restarting", "what is long ago is forgotten"


def test_ends_while_the_database_restarts_again_and_again_cost_no_try() -> None:
    database = kept("postgres", guarded=guarded(1))
    airflow = kept("airflow", (database,), begin=lambda: guarded(1), guarded=guarded(1))
    now = 0.0
    for _ in range(10):
        database.look(now)  # it ends
        airflow.look(now + 1)
        airflow.look(now + 2)
        assert airflow.status == "restarting", "it waits for its database"
        database.look(now + 100)  # it is back
        airflow.look(now + 101)
        airflow.look(now + 102)  # and ends once more, because it was
        database.guarded, now = guarded(1), now + 200
    assert airflow.ends == []
    database.guarded = guarded()
    database.look(now)
    database.look(now + 30)
    airflow.begin = guarded
    airflow.look(now + 60)
    airflow.look(now + 60)
    assert (database.status, airflow.status) == ("running", "running")
    airflow.guarded = guarded(1)
    airflow.look(now + 60 + EXCUSED_S)
    assert len(airflow.ends) == 1, "later it is its own fault"


def test_whatever_a_start_raises_is_tried_again() -> None:
    errors = iter([RuntimeError("no"), OSError(28, "No space left on device"), ValueError("?")])

    def begin() -> Guarded:
        error = next(errors, None)
        if error is not None:
            raise error
        return guarded()

    one = kept(begin=begin, guarded=guarded(1))
    now = 0.0
    one.look(now)
    while one.status != "running":
        now = one.due
        one.look(now)
    assert now < 10
    assert [cause.partition(":")[0] for _, cause in one.ends] == [
        "exit code 1",
        "RuntimeError",
        "OSError",
        "ValueError",
    ]


def test_a_service_that_hangs_is_ended_and_begun_again_and_one_that_starts_is_let_be() -> None:
    heard = [False]
    probe = Probe(lambda: heard[0], ask_s=0.0, silent_s=0.2)
    hanging = Hanging()
    one = kept(guarded=cast(Guarded, hanging))
    one.probe = probe
    assert not wait_until(lambda: one.look(0.0), 0.5, every_s=0.01), "it has not answered yet: it starts"
    heard[0] = True
    assert wait_until(lambda: one.look(0.0) or probe._answered is not None, 60, every_s=0.01)
    heard[0] = False
    assert wait_until(lambda: one.look(0.0) or one.status != "running", 60, every_s=0.01)
    assert [cause for _, cause in one.ends] == ["it did not answer"]
    one.look(one.due)
    assert (one.status, one.hung, probe.is_silent()) == ("running", False, False)


def test_no_error_ends_the_watch() -> None:
    told: list[dict[str, Any]] = []

    def changed(statuses: dict[str, Any]) -> None:
        told.append(dict(statuses))
        if len(told) == 3:
            raise OSError(28, "No space left on device")

    watch = Watch(changed, every_s=0.01)
    first = watch.add("service", guarded)
    watch.start()
    cast(Running, first).code = 1
    assert wait_until(lambda: {"service": "running"} in told[3:], 60), "the record was not written again"
    for thread in threading.enumerate():
        if thread.name == "stack-watch":
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
    second = cast(Running, watch.kept[0].guarded)
    second.code = 1
    assert wait_until(lambda: watch.kept[0].guarded is not cast(Guarded, second), 60), "nobody watches any more"
    watch.stop("")
