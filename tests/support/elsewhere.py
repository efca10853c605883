"""What somebody else has: a fresh clone, an environment without our checkout, a Spark cluster, a Postgres."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import psycopg2
import pyspark

from etl import settings as configuration
from etl.settings import PROJECT
from etl.stack.postgres import embedded_postgres

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


def fresh_clone(to: Path) -> Path:
    """What a clone holds once everything here is committed: no file that git leaves out."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (PROJECT / name).is_file() or (PROJECT / name).is_symlink():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, to / name, follow_symlinks=False)
    return to


def set_up(clone: Path) -> None:
    """What `bin/setup` would do, from what is installed here: packages, the project, its kernels, the jars.

    Kernels that were compiled here are compiled for the clone's files too: these have the same content and age.
    """
    environment(clone / ".venv")
    editable = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-e", "."]
    subprocess.run([str(clone / ".venv" / "bin" / "python"), *editable], cwd=clone, check=True, timeout=1200)
    for compiled in PROJECT.glob("etl/**/__pycache__/*.nb?"):
        target = clone / compiled.relative_to(PROJECT)
        target.parent.mkdir(exist_ok=True)
        shutil.copy2(compiled, target)
    (clone / "var").mkdir()
    (clone / "var" / "jars").symlink_to(PROJECT / "var" / "jars")
    stamp = "source bin/setup && what_is_wanted >$stamp"
    subprocess.run(["bash", "-c", stamp], cwd=clone, check=True)


def environment(at: Path) -> Path:
    """A Python with every package that is installed here, but not with Frontstage."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(at)], check=True)
    (theirs,) = at.glob("lib/python*/site-packages")
    own = re.compile(r"(__editable__\w*|frontstage)[-._].*|.*\.pth|__pycache__")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not own.fullmatch(entry.name):
            (theirs / entry.name).symlink_to(entry)
    for script in ("airflow", "pip"):
        text = Path(sys.executable).with_name(script).read_text()
        (at / "bin" / script).write_text(f"#!{at}/bin/python\n" + text.partition("\n")[2])
        (at / "bin" / script).chmod(0o755)
    assert distribution("frontstage"), "it is installed here, and only here"
    return at


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Postgres:
    """A server of somebody else's."""

    port: int
    admin: str

    def create(self, database: str, role: str, password: str) -> str:
        """An empty database and a role that owns it; its address."""
        with closing(psycopg2.connect(self.admin)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(f"create role {role} login password '{password}'")
            cursor.execute(f"create database {database} owner {role}")
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/{database}"


@contextmanager
def postgres(home: Path) -> Iterator[Postgres]:
    """A second server, on a port, with passwords and nothing of ours in it."""
    own = configuration.load(var=home, postgres_tcp_port=free_port())
    with embedded_postgres(own) as dsn:
        admin = dsn.replace("/frontstage?", "/postgres?")
        with closing(psycopg2.connect(admin)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute("drop database frontstage")
            cursor.execute("drop database airflow")
        assert own.postgres_tcp_port is not None, "it was just given"
        yield Postgres(own.postgres_tcp_port, admin)


@contextmanager
def spark_cluster(home: Path) -> Iterator[str]:
    """A standalone master and a worker of Spark's own, on this machine; the master's address."""
    home.mkdir(parents=True, exist_ok=True)
    address = f"spark://127.0.0.1:{(port := free_port())}"
    deploy = [str(SPARK_CLASS), "org.apache.spark.deploy"]
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(home)}
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [deploy[0], f"{deploy[1]}.master.Master", *here, "--port", str(port)]
    worker = [deploy[0], f"{deploy[1]}.worker.Worker", *here, "--cores", "2", "--memory", "2g", address]
    with (
        running(master, env, home / "master.log", "I have been elected leader"),
        running(worker, env, home / "worker.log", "Successfully registered with master"),
    ):
        yield address


@contextmanager
def running(
    command: Sequence[str], env: dict[str, str], log: Path, ready: str = "", cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A program and its children, from when its log says that it is ready until the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, cwd=cwd, stdout=out, stderr=out, start_new_session=True)
    try:
        wait_for(lambda: process.poll() is not None or ready in log.read_text(errors="replace"), 600, log)
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


def wait_for(holds: Callable[[], bool], seconds: float, log: Path) -> None:
    """Return once it holds; the end of a log says why it never does."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)
