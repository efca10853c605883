"""A resident process gives back what large work took."""

from __future__ import annotations

import subprocess
import sys

_FREED = """
import psutil
from etl.spark.runner.memory import release_unused

def held():
    return psutil.Process().memory_info().rss >> 20

blocks = [bytes(1000) for _ in range(200_000)]  # too large for Python's own allocator
last = bytes(1000)  # above the others: the C library gives back nothing below it by itself
del blocks
before = held()
release_unused()
print(before - held())
"""


def test_freed_memory_goes_back_to_the_system_when_asked() -> None:
    done = subprocess.run([sys.executable, "-c", _FREED], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 100, "two hundred megabytes were free"
