"""`python -m bench.figures`: regenerates the figures, one line per figure as it goes.

--rows 1M      size of R (10M takes about an hour)
--only 5a,7    some figures; the others keep their last results
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import plots
from bench.figures import caching, datasets, design, shedding
from bench.figures.result import Draft, Figure
from bench.figures.runs import Setting
from bench.figures.workload import Masters
from bench.measured import keep, machine
from etl.cli.console import Console

RESULTS = Path(__file__).resolve().parents[1] / "results"
FIGURES: dict[str, Callable[[Setting], Draft | list[Figure]]] = {
    "5a": caching.by_memory, "5b": caching.by_size, "5c": caching.nested_loop, "5d": caching.by_skew,
    "5e": datasets.tpch_figure, "5f": datasets.text_figure, "5g": datasets.locality_figure,
    "6": caching.processing_time, "7": shedding.positions, "8": shedding.policies,
    "9a": design.front_share, "9b": design.threshold, "9c": design.disk_buffer, "9d": design.front_role,
    "9e": design.growing, "9f": design.validation,
}  # fmt: skip
_SUFFIX = {"K": 1_000, "M": 1_000_000}


def count(text: str) -> int:
    """`1M`, `250K` or `1000000`."""
    number, factor = (text[:-1], _SUFFIX[text[-1].upper()]) if text[-1:].upper() in _SUFFIX else (text, 1)
    try:
        rows = int(float(number) * factor)
    except ValueError:
        rows = 0
    if rows < 50_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size of R; say 1M, 10M or a number from 50000 on")
    return rows


def chosen(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in FIGURES:
            raise argparse.ArgumentTypeError(f"there is no figure {name!r}; choose among {', '.join(FIGURES)}")
    return names


def regenerate(name: str, setting: Setting) -> list[Figure]:
    """A figure in cost units and in time."""
    made = FIGURES[name](setting)
    return made.in_units() if isinstance(made, Draft) else made


def store(results: Path, rows: int, figures: list[Figure], seconds: dict[str, float]) -> dict[str, Any]:
    """Writes figures beside those of an earlier run over the same R that this run did not make."""
    file = results / "figures.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    kept = before.get("figures", []) if before.get("rows") == rows else []
    made = {figure.figure for figure in figures}
    every = [old for old in kept if old["figure"] not in made] + [figure.to_json() for figure in figures]
    order = list(FIGURES)
    every.sort(key=lambda figure: (order.index(figure["figure"]), figure["unit"]))
    spent = (before.get("seconds", {}) if kept else {}) | seconds
    whole = {"rows": rows, "machine": machine(), "seconds": spent, "figures": every}
    keep(whole, file)
    return whole


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.figures", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=count, default=1_000_000, help="size of R: 1M (default), 10M, …")
    parser.add_argument("--only", type=chosen, default=list(FIGURES), help="figures, as in 5a,7")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results and plots go")
    options = parser.parse_args(arguments)
    figures: list[Figure] = []
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="figures-") as scratch, Console() as console:
        setting = Setting(options.rows, Masters(Path(scratch)))
        console.doing(f"publishing R, {options.rows:,} rows")
        setting.master()
        for number, name in enumerate(options.only, 1):
            console.doing(f"figure {name} ({number} of {len(options.only)})")
            began = time.perf_counter()
            made = regenerate(name, setting)
            seconds[name] = round(time.perf_counter() - began, 1)
            figures += made
            whole = store(options.results, options.rows, figures, seconds)
            plots.draw(name, [f for f in whole["figures"] if f["figure"] == name], options.results)
            marks = ", ".join(f"{figure.unit} {'holds' if figure.holds else 'differs'}" for figure in made)
            console.say(f"{name:3} {made[0].title} ({marks}; {seconds[name]:.0f} s)")


if __name__ == "__main__":
    main()
