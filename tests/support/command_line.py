"""How a process was started, as far as it still runs."""

from __future__ import annotations

from contextlib import suppress

import psutil


def command_line(process: psutil.Process) -> list[str]:
    """Empty for one that has just ended: processes come and go while somebody looks."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []
