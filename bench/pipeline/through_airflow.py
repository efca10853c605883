"""Ours through Airflow: how old orders are when the mart shows them, from the moment their files have landed.

    stack up, `orders` on arrival ─▶ every 30 s 50,000 orders land ─▶ until the ledger, and with it the mart, has them
                                  ─▶ then 100 orders at a time     ─▶ p50, p95 over the waves

A wave lands whole, by renames, and its age is taken by this process' clock: from the last rename until a reader of the
database sees all that the generator called clean. Waves that come before the first timed one warm up.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.measured import progress
from bench.pipeline.orders import Batch, Orders, with_backlog
from bench.pipeline.plan import MASTERS, NotMeasured
from etl import settings as configuration
from etl.adapters import ledger, postgres
from etl.contract.load import load as load_pipeline
from etl.errors import TransientError
from etl.samples import generate_master, seed
from etl.settings import Settings
from etl.stack.airflow.client import Airflow
from etl.stack.stack import Stack

_SEED, _PRODUCTS, _PIPELINE = 1, 20_000, "orders"
_STACK_S = 75.0
"""What starting and stopping the stack takes, generously."""
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Stream:
    """Waves of one size, one every so many seconds."""

    size: int
    every_s: float
    warmups: int
    waves: int

    @property
    def seconds(self) -> float:
        return (self.warmups + self.waves) * self.every_s


STREAMS = (Stream(50_000, 30.0, 1, 5), Stream(100, 6.0, 2, 8))


class WaveLost(TransientError):
    """A wave did not reach the mart in time."""

    def __init__(self, batch: Batch, seconds: float) -> None:
        super().__init__(batch, seconds)
        self.batch, self.seconds = batch, seconds

    def __str__(self) -> str:
        return f"{self.batch.size:,} orders that landed {self.seconds:.0f} s ago are not in the mart"


def needed(streams: Sequence[Stream] = STREAMS) -> dict[int, int]:
    """How many batches of each size have to be made."""
    return {stream.size: stream.warmups + stream.waves for stream in streams}


def measure(settings: Settings, orders: Path, seconds: float) -> list[dict[str, Any]]:
    """One row per stream: `batch`, `every_s`, `waves`, `p50_s`, `p95_s`."""
    takes = _STACK_S + sum(stream.seconds for stream in STREAMS)
    if seconds < takes:
        raise NotMeasured("freshness through Airflow", f"it takes {takes:.0f} s and {max(0, seconds):.0f} s are left")
    own = _settings(settings)
    whole = Stack(own, on_postgres=lambda dsn: _load_masters(own, dsn), progress=progress)
    with whole as stack, stack.airflow() as airflow:
        airflow.wait_for_dag(_PIPELINE)
        airflow.unpause(_PIPELINE)
        waves = Waves(own, stack.postgres_dsn, Orders(orders, MASTERS))
        rows = [waves.run(stream) for stream in STREAMS]
        _require_success(airflow)
    return rows


class Waves:
    """Lands waves and sees when they are in the mart."""

    def __init__(self, settings: Settings, dsn: str, orders: Orders) -> None:
        self._dsn, self._orders, self._expected = dsn, orders, 0
        self._landing = load_pipeline(settings.pipelines / f"{_PIPELINE}.toml", settings.var).stream.source.landing
        self._landing.mkdir(parents=True, exist_ok=True)

    def run(self, stream: Stream) -> dict[str, Any]:
        ages = []
        for number in range(stream.warmups + stream.waves):
            began = time.monotonic()
            age = self._wave(self._orders.batch(stream.size, number))
            counts = number >= stream.warmups
            progress(f"airflow: {stream.size:>7,} orders {age:8.2f} s{'' if counts else '  (warm-up)'}")
            if counts:
                ages.append(age)
            time.sleep(max(0.0, stream.every_s - (time.monotonic() - began)))
        p50, p95 = np.percentile(ages, [50, 95])
        return {
            "batch": stream.size,
            "every_s": stream.every_s,
            "waves": len(ages),
            "p50_s": round(float(p50), 2),
            "p95_s": round(float(p95), 2),
            "seconds_of_waves": [round(age, 2) for age in ages],
        }

    def _wave(self, batch: Batch) -> float:
        """Land it; how long until all of its clean orders are in the mart."""
        for file in batch.files:
            shutil.copyfile(file, draft := self._landing / f".{file.name}.part")
            draft.rename(self._landing / file.name)
        landed = time.monotonic()
        self._expected += with_backlog(batch.kinds)["fact"]
        while (age := time.monotonic() - landed) < _PATIENCE_S:
            if self._loaded() >= self._expected:
                return time.monotonic() - landed
            time.sleep(0.1)
        raise WaveLost(batch, age)

    def _loaded(self) -> int:
        with ledger.reading(self._dsn, _PIPELINE) as book:
            return book.totals().get("fact", 0)


def _require_success(airflow: Airflow) -> None:
    failed = [run.run_id for run in airflow.runs(_PIPELINE) if run.state == "failed"]
    if failed:
        raise NotMeasured("freshness through Airflow", f"{len(failed)} runs failed")


def _load_masters(settings: Settings, dsn: str) -> None:
    seed.clean(settings)
    seed.forget(dsn)
    postgres.migrate(dsn)
    with postgres.connect(dsn) as connection:
        generate_master(connection, _SEED, MASTERS, _PRODUCTS)


def _settings(settings: Settings) -> Settings:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    home = settings.var / "airflow"
    places = {name: home / name for name in ("archive", "warehouse", "master_pages")}
    free = {"postgres_dsn": None, "airflow_dsn": None, "schedule": None, "airflow_port": port}
    return configuration.load(var=home, jars=settings.jars, **places, **free)
