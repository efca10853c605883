"""Lands tuples for the example of three sites: `python examples/sites/land.py`, and again for more.

Each region has best sellers of its own, a third of all items each: 99 % of a region's tuples are about them.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

STREAMS = (
    ("page_views", "view_id", "seen_at", "page"),
    ("stock_moves", "move_id", "moved_at", "units"),
    ("price_changes", "change_id", "changed_at", "price"),
)
ITEMS, HOT = 600, 0.99


def land(var: Path, wave: int, tuples: int, begin: datetime, seconds: float = 10.0) -> None:
    """One file per stream, with the tuples of some seconds."""
    for region, (stream, key, time, extra) in enumerate(STREAMS):
        draw = np.random.default_rng((wave, region))
        group = np.where(draw.random(tuples) < HOT, region, (region + draw.integers(1, 3, tuples)) % 3)
        items = draw.integers(0, ITEMS // 3, tuples) * 3 + group
        offsets = np.sort(draw.random(tuples)) * seconds + wave * seconds
        values = {"page": "shop", "units": int(draw.integers(1, 9)), "price": round(float(draw.uniform(1, 99)), 2)}
        lines = [
            {key: wave * tuples + i, "sku": int(items[i]), extra: values[extra],
             time: (begin + timedelta(seconds=float(offsets[i]))).isoformat()}
            for i in range(tuples)
        ]  # fmt: skip
        folder = var / "landing" / "sites" / stream
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / f".{wave:06d}.part"
        aside.write_text("".join(json.dumps(line) + "\n" for line in lines))
        aside.rename(folder / f"{wave:06d}.jsonl")


def main(arguments: list[str] | None = None) -> None:
    from etl import settings

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wave", type=int, default=0, help="the number of the file; the next has later tuples")
    parser.add_argument("--tuples", type=int, default=4000, help="per stream and wave")
    options = parser.parse_args(arguments)
    own = settings.load()
    for site in ("eu", "us", "ap"):
        (own.var / "sites" / site).mkdir(parents=True, exist_ok=True)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    land(own.var, options.wave, options.tuples, today)
    print(f"wave {options.wave}: {options.tuples:,} tuples for each of {len(STREAMS)} streams")


if __name__ == "__main__":
    main()
