"""Checks before a start, so that a refusal leaves nothing running.

Each function returns a sentence on success, and raises an error with the remedy on failure. The stack runs the checks
it needs; the doctor runs all of them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Collection
from pathlib import Path

from etl.errors import MissingPart, PortTaken, SettingsError
from etl.settings import JARS_REMEDY, PREFIX, Settings

JAVA = 17
JAR_SUMS = Path(__file__).with_name("jars.sha256")


def require(settings: Settings, services: Collection[str]) -> None:
    """Run all checks that the given services need."""
    writable(settings.var)
    disk(settings)
    ports(settings, services)
    if "spark" in services:
        java()
        jars(settings, sums=False)


def ports(settings: Settings, services: Collection[str]) -> str:
    """Check that all ports we will listen on are free."""
    wanted = {}
    if "airflow" in services:
        wanted["airflow_port"] = settings.airflow_port
    if "postgres" in services and settings.postgres_dsn is None and settings.postgres_tcp_port is not None:
        wanted["postgres_tcp_port"] = settings.postgres_tcp_port
    if len(set(wanted.values())) < len(wanted):
        raise SettingsError(f"{' and '.join(wanted)} are both {settings.airflow_port}; give each a port of its own")
    for setting, port in wanted.items():
        _free(port, PREFIX + setting.upper())
    return f"port {' and '.join(map(str, wanted.values()))} free" if wanted else "no port needed"


def _free(port: int, setting: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of an earlier stack that linger in TIME_WAIT do not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EACCES:
                raise SettingsError(f"port {port} is reserved for root; set {setting} to 1024 or more") from None
            raise PortTaken(port, setting) from None


def disk(settings: Settings) -> str:
    """Check the free disk space of `var`."""
    folder = next(path for path in (settings.var, *settings.var.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    if free < settings.disk_free_bytes:
        raise MissingPart(
            f"{folder} has {_gib(free)} free and {_gib(settings.disk_free_bytes)} are wanted",
            f"make room, or set {PREFIX}DISK_FREE_BYTES or {PREFIX}VAR",
        )
    return f"{_gib(free)} free at {folder}"


def writable(folder: Path) -> str:
    """Check that a folder is writable, or can be created."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise MissingPart(
            f"{folder} cannot be written ({error.strerror})", "correct its owner, or set another"
        ) from None
    return f"{folder} can be written"


def java() -> str:
    """Check for Java 17 or later, where Spark looks for it."""
    remedy = f"install Java {JAVA} (Debian and Ubuntu: openjdk-{JAVA}-jre-headless), or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")  # not a setting of ours: Spark's launcher reads it
    program = str(Path(home, "bin", "java")) if home else "java"
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        raise MissingPart(f"there is no Java ({program} does not run)", remedy) from None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr)
    # Up to version 8 the number came second: "1.8".
    version = 0 if found is None else int(found[2] or 0) if found[1] == "1" else int(found[1])
    if version < JAVA:
        raise MissingPart(f"Java {version} is too old", remedy)
    return f"Java {version}"


def jars(settings: Settings, sums: bool = True) -> str:
    """Check that the pinned Delta jars exist; with `sums`, also their checksums."""
    try:
        lines = [line.split() for line in JAR_SUMS.read_text().splitlines() if line.strip()]
    except OSError:
        raise MissingPart(
            f"{JAR_SUMS} is missing", "restore it from the repository, or install its wheel again"
        ) from None
    for digest, name in lines:
        path = settings.jars / name.lstrip("*")
        if not path.is_file():
            raise MissingPart(f"{path} is missing", JARS_REMEDY)
        if sums and hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise MissingPart(f"{path} is not the file that was pinned", f"remove it and {JARS_REMEDY}")
    return f"{len(lines)} jars{', checksums right' if sums else ''}"


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
