"""A run of all correlations in a process that kills itself at a checkpoint, as the kernel would do it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from etl.settings import PROJECT
from etl.streams.tasks.in_process import InProcess
from tests.support.stream_site import StreamSite


def run_and_die(home: Path, dsn: str, checkpoint: str) -> None:
    """Run a batch of a site in another process, which does not survive the checkpoint."""
    command = [sys.executable, "-m", "tests.support.killed_driver", str(home), dsn, checkpoint]
    done = subprocess.run(command, cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)}, timeout=1200)
    assert done.returncode == -signal.SIGKILL


def main(home: str, dsn: str, checkpoint: str) -> None:
    def reached(name: str) -> None:
        if name == checkpoint:
            os.kill(os.getpid(), signal.SIGKILL)

    StreamSite.under(Path(home), dsn, InProcess()).watching(reached).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
