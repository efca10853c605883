"""Explain the joins on this machine: memory, measured unit costs, the price of every tactic, and the choice.

    budget ─► front stage, pending tuples, disk buffer          as the pipeline sizes them
    pages  ─► a short trial ─► unit costs ─┐
    real keys of the master ───────────────┴─► price of every tactic ─► the choice of `auto`

Keys are drawn uniformly from all pages, the most expensive distribution. In a real batch, front stage hits do not reach
the tactic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columnar.keys import encode, to_contiguous
from etl.contract.model import Master
from etl.enrich.build import LOOKUP_TUPLES, Options, build, planned
from etl.enrich.front_stage.rows import FrontRows, FrontStageConfig
from etl.enrich.planning.auto import AutoTactic, Choice, Clock
from etl.enrich.planning.calibrate import measure_units, profile_of
from etl.enrich.planning.cost import MasterProfile, UnitCosts, pages_touched
from etl.enrich.planning.sizing import Sizes
from etl.enrich.ports import MasterReader, MasterScan
from etl.enrich.spec import JoinSpec, TacticName
from etl.enrich.step import StreamTuples
from etl.masters.front_stage.keeper import divided
from etl.masters.masters import page_store, received, store_name
from etl.masters.pages.view import MasterPages
from etl.masters.wiring import masters_of
from etl.settings import Settings


@dataclass(frozen=True, slots=True)
class Explanation:
    """One master: the sizes of its join, the unit costs, and the tactic that would be chosen."""

    master: str
    rows: int  # an estimate where they are not counted
    profile: MasterProfile
    front_bytes: int  # 0 without a front stage
    front_rows: int  # an estimate
    sizes: Mapping[TacticName, Sizes]  # of one worker, by tactic that may be used
    units: UnitCosts
    choice: Choice

    def as_json(self) -> dict[str, Any]:
        return {
            "master": self.master,
            "rows": self.rows,
            "pages": self.profile.page_count,
            "row_bytes": self.profile.row_bytes,
            "memory": {
                "front_bytes": self.front_bytes,
                "front_rows": self.front_rows,
                "tactics": {name: self.parts(name) for name in self.sizes},
            },
            "unit_costs_s": asdict(self.units),
            "tuples": self.choice.tuples,
            "keys": self.choice.keys,
            "prices_s": dict(self.choice.seconds),
            "choice": self.choice.name,
        }

    def parts(self, name: TacticName) -> dict[str, int]:
        """The memory that one worker reserves for a tactic."""
        size = self.sizes[name]
        if name == "inlj":
            return {"lookup_tuples": size.lookup_tuples, "buffer_bytes": size.lookup_tuples * self.profile.row_bytes}
        pages = size.pages_per_step if name == "meshjoin" else size.lookups
        return {"pending_tuples": size.capacity, "buffer_bytes": pages * self.profile.page_bytes}


@contextmanager
def ports_of(settings: Settings, dsn: str, master: Master, now: datetime) -> Iterator[MasterReader]:
    """A reader of a master's current version; does not refresh pages."""
    if settings.master_store == "pages":
        with page_store(settings.master_pages / store_name(master)).open(columns=received(master) or None) as pages:
            yield pages
        return
    with (
        masters_of(settings, [master], dsn).pinned("explain", now, lambda _: None) as (pinned,),
        pinned.open() as reader,
    ):
        yield reader


def explain(
    settings: Settings,
    masters: int,
    name: str,
    reader: MasterReader,
    *,
    tuples: int = 50_000,
    keys: int | None = None,
    clock: Clock = time.perf_counter,
) -> Explanation:
    """Explain the join with one of `masters` masters, for this many pending tuples and distinct keys."""
    profile, spec = profile_of(reader), JoinSpec.named(settings.tactic)
    front_bytes, budget = divided(settings.budget_bytes, masters, spec)
    units = measure_units(UnitCosts(), clock, lookup=reader, scan=reader, index=reader)
    options = Options(units=units, front_elsewhere=True, lookup_tuples=LOOKUP_TUPLES)
    join = build("auto", reader=reader, budget_bytes=budget, profile=profile, options=options)
    assert isinstance(join.tactic, AutoTactic), "auto chooses"
    wanted = encode(drawn_keys(reader, profile, tuples, keys))
    join.tactic.load(StreamTuples(np.arange(len(wanted)), wanted))
    assert join.tactic.choice is not None, "somebody was chosen"
    rows = reader.manifest.rows if isinstance(reader, MasterPages) else profile.rows
    room = _front_rows(FrontStageConfig(front_bytes, settings.policy), reader) if front_bytes else 0
    sizes = planned(spec, spec.tactics, budget, profile, options)
    return Explanation(name, rows, profile, front_bytes, min(rows, room), sizes, units, join.tactic.choice)


def drawn_keys(scan: MasterScan, profile: MasterProfile, tuples: int, keys: int | None) -> pa.Array:
    """Keys of real master rows for this many tuples, each distinct key at least once."""
    rows = max(1, profile.rows)
    wanted = max(1, round(pages_touched(tuples, rows))) if keys is None else keys
    rng, found, count = np.random.default_rng(rows), [], 0
    for page in rng.permutation(scan.page_count()):
        if count >= wanted:
            break
        found.append(to_contiguous(scan.read_pages(int(page), 1).column(0)))
        count += len(found[-1])
    if not count:
        return pa.array([], pa.int64())
    pool = pa.concat_arrays(found).slice(0, wanted)
    again = rng.integers(0, len(pool), max(0, tuples - len(pool)))
    return pool.take(pa.array(np.concatenate([np.arange(len(pool)), again])))


def _front_rows(config: FrontStageConfig, scan: MasterScan) -> int:
    """How many rows a front stage holds, estimated from the first page."""
    rows = scan.read_pages(0, min(1, scan.page_count()))
    return FrontRows.planned(config, encode(rows.column(0)), rows).capacity if rows.num_rows else 0
