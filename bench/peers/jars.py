"""The JDBC driver: resolved once by Spark's own resolver, believed only with the sum that is pinned."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measured import progress
from etl.errors import MissingPart
from etl.settings import PROJECT

_WANTED = PROJECT / "requirements" / "bench-jars.in"
_SUMS = PROJECT / "requirements" / "bench-jars.sha256"


def jdbc_jar(folder: Path) -> Path:
    """The driver's jar in `folder`, downloaded when it is not there."""
    digest, name = _SUMS.read_text().split()
    jar = folder / name
    if _sum(jar) == digest:
        return jar
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        progress("downloading the JDBC driver")
        found = resolved(_WANTED, Path(scratch)) / name
        if _sum(found) != digest:
            raise MissingPart(
                f"{name} could not be downloaded, or has not the sum of {_SUMS.name}", "check the network"
            )
        shutil.move(found, jar)
    return jar


def _sum(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def resolved(wanted_in: Path, scratch: Path) -> Path:
    """The folder of the jars that a file names. spark-submit resolves, then "runs" an empty program: no session."""
    package = importlib.util.find_spec("pyspark")
    spark = Path((package.origin if package is not None else None) or "").parent
    lines = [line for line in wanted_in.read_text().splitlines() if line and not line.startswith("#")]
    wanted = ",".join(line for line in lines if not line.startswith("- "))
    excluded = ",".join(line.removeprefix("- ") for line in lines if line.startswith("- "))
    empty = scratch / "empty.py"
    empty.touch()
    submit = [str(spark / "bin" / "spark-submit"), "--master", "local[1]", "--packages", wanted]
    options = ["--exclude-packages", excluded, "--conf", f"spark.jars.ivy={scratch}", str(empty)]
    own = {"SPARK_HOME": str(spark), "SPARK_CONF_DIR": str(scratch), "PYSPARK_PYTHON": sys.executable}
    subprocess.run([*submit, *options], env={**os.environ, **own}, capture_output=True, check=False)
    return scratch / "jars"
