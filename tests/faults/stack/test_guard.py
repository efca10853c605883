"""No process outlives its stack: not when the supervisor is killed, nor the guard, nor both."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from etl.settings import PROJECT
from etl.stack.supervision.guard import adopt_orphans
from etl.stack.supervision.probe import Probe
from etl.stack.supervision.processes import (
    Guarded,
    Service,
    ServiceFailed,
    end_families,
    gone,
    marked,
    run_to_end,
    start,
    sweep,
    wait_until,
)
from etl.stack.supervision.supervisor import FORGIVEN, SupervisedService, Watch

pytestmark = pytest.mark.stack

FAMILY = """
import os, signal, sys, time
from pathlib import Path
if os.fork() == 0:                                  # a daemon, as daemons are made: fork, setsid, fork
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)   # and one that does not listen
        Path(sys.argv[1], str(os.getpid())).touch()
        time.sleep(600)
    os._exit(0)
os.wait()
Path(sys.argv[1], str(os.getpid())).touch()
if sys.argv[2] == "stay":
    time.sleep(600)
"""
ANSWERING = """
import socket, sys
from pathlib import Path
Path(sys.argv[1]).unlink(missing_ok=True)
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    while True:
        with listener.accept()[0] as client:
            client.sendall(b"here")
"""
SUPERVISOR = """
import sys, time
from pathlib import Path
from etl.stack.supervision.processes import Service, start
start(Service("family", tuple(sys.argv[2:]), {}, Path(sys.argv[1], "log")), Path(sys.argv[1]))
print("started", flush=True)
time.sleep(600)
"""


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    folder = tmp_path / "pids"
    folder.mkdir()
    return folder


@pytest.fixture
def adopting() -> Iterator[None]:
    adopt_orphans()
    yield
    adopt_orphans(False)


def command(pids: Path, how: str = "stay") -> tuple[str, ...]:
    return (sys.executable, "-c", FAMILY, str(pids), how)


def family(tmp_path: Path, pids: Path, how: str = "stay") -> Service:
    return Service("family", command(pids, how), {}, tmp_path / "log", grace_s=0.5)


def members(pids: Path) -> list[int]:
    """The pids of the service and its daemon, once both have written them down."""
    assert wait_until(lambda: len(list(pids.iterdir())) == 2, 120), "the family did not start"
    return [int(path.name) for path in pids.iterdir()]


def both(pids: Path) -> list[psutil.Process]:
    return [psutil.Process(pid) for pid in members(pids)]


def supervisor(tmp_path: Path, pids: Path) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", SUPERVISOR, str(tmp_path), *command(pids)]
    return subprocess.Popen(argv, env={"PYTHONPATH": str(PROJECT)}, stdout=subprocess.PIPE)


def test_stopping_a_service_ends_its_daemons_too(tmp_path: Path, pids: Path) -> None:
    guarded = start(family(tmp_path, pids), tmp_path)
    processes = both(pids)
    guarded.stop()
    assert all(map(gone, processes))
    assert marked(tmp_path) == []


def test_a_killed_supervisor_takes_daemons_of_its_services_with_it(tmp_path: Path, pids: Path) -> None:
    with supervisor(tmp_path, pids) as parent:
        processes = both(pids)
        parent.kill()
    assert wait_until(lambda: all(map(gone, processes)), 120), "a daemon outlived its supervisor"
    assert wait_until(lambda: marked(tmp_path) == [], 120)


@pytest.mark.usefixtures("adopting")
def test_when_its_guard_is_killed_the_supervisor_ends_the_service(tmp_path: Path, pids: Path) -> None:
    guarded = start(family(tmp_path, pids), tmp_path)
    processes = both(pids)
    guarded.process.kill()
    assert wait_until(lambda: guarded.poll() is not None, 120)
    assert all(map(gone, processes))
    assert marked(tmp_path) == []


def test_when_guard_and_supervisor_are_killed_the_sweep_ends_the_service(tmp_path: Path, pids: Path) -> None:
    with supervisor(tmp_path, pids) as parent:
        processes = both(pids)
        guards = psutil.Process(parent.pid).children()
        for process in (*guards, psutil.Process(parent.pid)):
            process.suspend()  # neither may notice the other's end
        for process in (*guards, psutil.Process(parent.pid)):
            process.kill()
    try:
        assert not any(map(gone, processes)), "nobody is left who could have ended them"
        sweep(tmp_path)
        assert all(map(gone, processes))
    finally:
        end_families(processes)


def test_a_service_that_ends_by_itself_leaves_no_daemon(tmp_path: Path, pids: Path) -> None:
    guarded = start(family(tmp_path, pids, "leave"), tmp_path)
    assert wait_until(lambda: guarded.poll() is not None, 120)
    assert guarded.poll() == 0
    assert not any(map(psutil.pid_exists, members(pids)))


def test_a_program_that_does_not_exist_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ServiceFailed, match="nothing-here cannot be started"):
        start(Service("nothing-here", (str(tmp_path / "nothing-here"),), {}, tmp_path / "log"), tmp_path)


def test_a_program_that_fails_is_reported_with_its_last_words(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "import sys; sys.exit('the well is dry')")
    with pytest.raises(ServiceFailed, match="the well is dry"):
        run_to_end(Service("well", argv, {}, tmp_path / "log"), tmp_path, 120)


def test_a_service_sees_its_environment_and_no_descriptor_of_ours(tmp_path: Path) -> None:
    script = "import json, os; print(json.dumps([os.environ['KEY'], os.listdir('/proc/self/fd')]))"
    secret = os.open(tmp_path / "secret", os.O_CREAT | os.O_RDWR)
    try:
        service = Service("look", (sys.executable, "-c", script), {"KEY": "value"}, tmp_path / "log")
        run_to_end(service, tmp_path, 30, keep=[secret])
    finally:
        os.close(secret)
    key, descriptors = json.loads((tmp_path / "log").read_text())
    assert key == "value"
    assert set(descriptors) == {"0", "1", "2", "3"}, "0 to 2, and 3 is the listing itself"


def test_a_service_that_ends_is_started_again(tmp_path: Path, pids: Path) -> None:
    seen: list[dict[str, str]] = []
    watch = Watch(lambda statuses: seen.append(dict(statuses)), every_s=0.01)
    first = watch.add("family", lambda: start(family(tmp_path, pids), tmp_path))
    watch.start()
    psutil.Process(first.pid).kill()
    try:
        assert wait_until(lambda: watch.kept[0].guarded is not first, 120), "it was not started again"
        assert wait_until(lambda: watch.statuses() == {"family": "running"}, 120)
    finally:
        watch.stop(last="")
    assert {"family": "restarting"} in seen
    assert marked(tmp_path) == []


def test_a_service_that_is_stopped_and_says_nothing_is_ended_and_started_again(tmp_path: Path) -> None:
    path = tmp_path / "s"

    def answers() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(0.2)
            client.connect(str(path))
            return client.recv(4) == b"here"

    service = Service("answering", (sys.executable, "-c", ANSWERING, str(path)), {}, tmp_path / "log", grace_s=0.2)
    watch = Watch(lambda _: None, every_s=0.01)
    probe = Probe(answers, ask_s=0.02, silent_s=1.0)
    first = watch.add("answering", lambda: start(service, tmp_path), probe=probe)
    watch.start()
    try:
        assert wait_until(lambda: probe._answered is not None, 120), "it never answered"
        psutil.Process(first.pid).suspend()
        assert wait_until(lambda: watch.kept[0].guarded is not first, 120), "it was not started again"
        assert [cause for _, cause in watch.kept[0].ends] == ["it did not answer"]
        assert wait_until(lambda: probe._answered is not None, 120), "the new one does not answer"
    finally:
        watch.stop(last="")
    assert marked(tmp_path) == []


def test_a_service_that_keeps_ending_is_given_up(tmp_path: Path) -> None:
    def begin() -> Guarded:
        guarded = start(Service("short", (sys.executable, "-c", ""), {}, tmp_path / "log"), tmp_path)
        assert wait_until(lambda: guarded.poll() is not None, 120)
        return guarded

    kept = SupervisedService("short", begin, begin(), status="running")
    statuses = []
    for second in range(0, 240, 20):  # far enough apart for every pause to be over
        kept.look(float(second))
        statuses.append(kept.status)
    assert statuses.count("restarting") == FORGIVEN
    assert statuses[-1] == "failed"
