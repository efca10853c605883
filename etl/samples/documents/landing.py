"""Waves of server logs that land for the example of documents."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path

from etl.samples.documents.server_logs import server_logs
from etl.samples.example import publish

RATE_PER_S = 100.0  # of event time
STREAM = "server_log"


def land_server_log(landing: Path, start: datetime, documents: int, waves: int, seed: int) -> Iterator[Path]:
    """Lets a wave land each time one is asked for: a file in `landing`/server_log."""
    lines = server_logs(documents * waves, seed=seed, start_s=int(start.timestamp()), rate_per_s=RATE_PER_S)
    for number in range(waves):
        content = b"".join(line + b"\n" for line in islice(lines, documents))
        yield publish(landing / STREAM, f"{STREAM}-{seed}-{start:%Y%m%dT%H%M%S}-{number:04}.jsonl", content)
