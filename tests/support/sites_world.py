"""Streams a, b and c at three sites that are folders, a correlation over them, and the nested loop: its truth."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from etl.streams.tasks.in_process import InProcess
from tests.support.correlate_histories import at
from tests.support.stream_site import StreamSite

HOMES = {"a": "eu", "b": "us", "c": "ap"}
SQL = "select a.id as a, b.id as b, c.id as c from a join b on a.k = b.k join c on b.k = c.k"
Tuple = tuple[int, int, float]  # id, k, seconds
Batch = dict[str, list[Tuple]]


@dataclass(frozen=True)
class SitesWorld:
    ground: StreamSite
    home: Path

    @classmethod
    def under(cls, home: Path, dsn: str) -> SitesWorld:
        ground = StreamSite.under(home, dsn, InProcess())
        for stream, site in HOMES.items():
            ground.declare_stream(stream, f'site = "{site}"')
            (home / "sites" / site).mkdir(parents=True)
        (home / "warehouse").mkdir(exist_ok=True)
        lines = [f'[site.{site}]\nroot = "sites/{site}"\nqueue = "{site}"\n' for site in HOMES.values()]
        (home / "warehouse" / "sites.toml").write_text("".join(lines))
        return cls(ground, home)

    def declare(self, name: str = "met", sql: str = SQL, options: str = 'target = "eu"', **top: Any) -> None:
        kept = {"within": "6 seconds", "lateness": "2 seconds", **top}
        lines = [f'{key} = "{value}"' for key, value in kept.items() if value is not None]
        text = "\n".join([*lines, f'sql = """\n{sql}\n"""', "[sites]", options])
        (self.ground.settings.correlations / f"{name}.toml").write_text(text)

    def forget(self, name: str) -> None:
        (self.ground.settings.correlations / f"{name}.toml").unlink()

    def land(self, name: str, batch: Batch) -> None:
        for stream, rows in batch.items():
            self.ground.land(stream, name, [{"id": i, "k": k, "x": 1, "t": at(seconds)} for i, k, seconds in rows])

    def leave(self, site: str) -> None:
        """The site is away: an empty mount point is in its place."""
        (self.home / "sites" / site).rename(self.home / f"{site} elsewhere")
        (self.home / "sites" / site).mkdir()

    def come_back(self, site: str) -> None:
        shutil.rmtree(self.home / "sites" / site)
        (self.home / f"{site} elsewhere").rename(self.home / "sites" / site)

    def ending(self, checkpoint: str) -> SitesWorld:
        return replace(self, ground=self.ground.ending(checkpoint))

    def results(self, name: str = "met") -> Counter[tuple[int, int, int]]:
        return Counter((row["a"], row["b"], row["c"]) for row in self.ground.table(name).to_pylist())

    def results_at_sites(self) -> Counter[tuple[int, int, int]]:
        """Of a correlation without a target: what lies where it was made."""
        found: Counter[tuple[int, int, int]] = Counter()
        for path in (self.home / "sites").rglob("results/**/*.arrow"):
            if path.stat().st_size:
                with ipc.open_stream(pa.memory_map(str(path))) as reader:
                    rows = reader.read_all().to_pylist()
                found.update((row["a.id"], row["b.id"], row["c.id"]) for row in rows)
        return found


def some(number: int, size: int = 8, values: int = 3) -> Batch:
    """A batch of five seconds, some tuples late, few values."""
    draw = np.random.default_rng(number)
    made: Batch = {}
    for place, name in enumerate(HOMES):
        seconds = 5.0 * number + draw.choice([-20, -1, 0, 1, 2, 3, 4], size)
        ids = range(1000 * number + 100 * place, 1000 * number + 100 * place + size)
        made[name] = [
            (i, int(k), float(s)) for i, k, s in zip(ids, draw.integers(0, values, size), seconds, strict=True)
        ]
    return made


def run(world: SitesWorld, number: int, **options: Any) -> dict[str, Any]:
    """Land one of these and run it."""
    world.land(str(number), some(number, **options))
    return world.ground.run()


def truth(
    history: Sequence[Batch], windows: dict[str, float | int] | None = None, lateness: float = 2.0
) -> Counter[tuple[int, int, int]]:
    """Every combination of equal k whose windows intersect. A window is seconds, or (as an int) a number of tuples."""
    windows = windows or dict.fromkeys(HOMES, 6.0)
    kept: dict[str, list[tuple[int, int, float, float]]] = {name: [] for name in HOMES}
    horizon = float("-inf")
    for batch in history:
        latest = horizon
        for name in HOMES:
            for number, k, seconds in sorted(batch.get(name, []), key=lambda one: one[2]):
                if seconds >= horizon - lateness:
                    kept[name].append((number, k, seconds, horizon))
                    latest = max(latest, seconds)
        horizon = latest
    members = {name: list(_with_ends(rows, windows[name])) for name, rows in kept.items()}
    found: Counter[tuple[int, int, int]] = Counter()
    for a, b, c in itertools.product(*(members[name] for name in HOMES)):
        if a[1] == b[1] == c[1] and max(a[2], b[2], c[2]) <= min(a[3], b[3], c[3]):
            found[a[0], b[0], c[0]] += 1
    return found


def _with_ends(rows: list[tuple[int, int, float, float]], window: float | int) -> list[tuple[int, int, float, float]]:
    made = []
    for place, (number, k, seconds, _) in enumerate(rows):
        end = seconds + window
        if isinstance(window, int):
            after = rows[place + window] if place + window < len(rows) else None
            end = float("inf") if after is None else max(after[2] - 1e-6, after[3], seconds)
        made.append((number, k, seconds, end))
    return made
