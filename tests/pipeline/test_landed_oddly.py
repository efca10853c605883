"""Files that land in odd ways: from a clock that is ahead, or on another disk than the archive."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from etl.pipeline.prepare import OnTwoDisks
from tests.support.site import Site, order

ELSEWHERE = Path("/proc")
"""A file system of its own, wherever tests keep their files."""


def test_a_file_whose_sender_has_a_clock_that_is_ahead_is_read_to_its_end(site: Site) -> None:
    path = site.land("a.jsonl", order(1))
    path.write_bytes(path.read_bytes() + json.dumps(order(2)).encode())  # a last line without an end
    ahead = time.time() + timedelta(days=3_650).total_seconds()
    os.utime(path, (ahead, ahead))
    site.run()
    assert site.totals()["fact"] == 1, "the last line may still be written"
    assert site.later(timedelta(minutes=5)).run() == 2
    assert (site.totals()["fact"], site.inventory().faults) == (2, [])
    assert list(site.landing.iterdir()) == [], "it has been quiet, and is archived"


def test_an_archive_on_another_disk_is_refused_with_what_to_do(site: Site) -> None:
    site.land("a.jsonl", order(1))
    with pytest.raises(OnTwoDisks, match=r"are on different file systems.*; set FRONTSTAGE_ARCHIVE to a folder"):
        site.changed(archive=ELSEWHERE).run()
    assert site.run() == 1
