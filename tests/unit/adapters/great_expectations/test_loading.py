"""Great Expectations is imported by whoever needs it first, also by several threads of the resident driver at once."""

from __future__ import annotations

import subprocess
import sys

from etl.settings import PROJECT

AT_ONCE = """
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from etl.adapters.great_expectations import audit

begin = Barrier(3)

def first_use(_):
    begin.wait()
    audit.load()
    import great_expectations as gx
    import great_expectations.expectations as expect
    return gx.Checkpoint, expect.ExpectColumnMaxToBeBetween

warnings.simplefilter("ignore")
with ThreadPoolExecutor(3) as threads:
    assert len(set(threads.map(first_use, range(3)))) == 1
"""


def test_threads_that_need_it_at_the_same_time_all_get_it_whole() -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
