"""Our side of the comparison: the pipeline's own partition runner on published pages, nothing special for the bench."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from etl.contract.model import Master
from etl.enrich.front_stage.stage import FrontStageConfig
from etl.enrich.spec import JoinSpec
from etl.masters.front_stage.keeper import FrontStageKeeper, divided
from etl.masters.front_stage.learning import LearningAccount
from etl.masters.masters import PagesPlace, PinnedMaster, page_store
from etl.masters.pages.store import PageStore
from etl.spark.engine_notes import MasterNotes, collector
from etl.spark.enrich import EnrichPlan, MasterJoin, enrich

_WORKERS = 2


def _warmed(store: PageStore) -> None:
    """All of R in the page cache, for all skews alike; `bench-cold` measures what happens when it is not."""
    for run in sorted(store.runs.iterdir()):
        with run.open("rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


class Ours:
    """Joins orders with one master in pages. `budget_bytes` is for everything: the front stage and all workers."""

    def __init__(self, spark: SparkSession, pages_root: Path, key: str, budget_bytes: int) -> None:
        self._spark, self._budget = spark, budget_bytes
        store = page_store(pages_root)
        self._number = store.pin("bench", datetime.now(UTC))
        with store.open(self._number) as view:
            columns, schema, self._rows_id = view.columns, view.schema, view.parts[0]
        master = Master("master", "postgres", "bench.master", ((key, key),), columns)
        self._pinned = PinnedMaster(master, 1, self._rows_id, schema, PagesPlace(store.root, self._number, columns))
        _warmed(store)
        self._store, self._folder = store, pages_root.parent / "front-stages"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._keepers: dict[str, FrontStageKeeper] = {}
        self._notes: dict[str, MasterNotes] = {}
        self._accounts: dict[str, LearningAccount] = {}
        self._collector = collector(spark.sparkContext)

    def join(self, orders: DataFrame, tactic: str) -> DataFrame:
        """Orders with their master row, and two flags the pipeline needs: answered by the front stage, and shed."""
        self._collector = collector(self._spark.sparkContext)
        plan = EnrichPlan(
            (MasterJoin(self._pinned, self._ready(tactic)),),
            tactic,  # type: ignore[arg-type]
            divided(self._budget, 1, JoinSpec.named(tactic))[1] // _WORKERS,
        )
        return enrich(orders, plan, self._collector)

    def settle(self, tactic: str, batch_s: float) -> None:
        """What the pipeline does between batches: the front stage learns what the tasks wanted, if it is due."""
        notes = self._collector.value.get("master")
        if notes is None:
            return
        self._notes[tactic] = notes
        account = self._accounts.setdefault(tactic, LearningAccount())
        account.earn(batch_s)
        due = None if notes.learned is None else account.gather(notes.learned)
        if due is not None:
            began = time.perf_counter()
            with self._pinned.open() as reader:
                self._keeper(tactic).learn(due, reader, account.paid(time.perf_counter, began, lambda: True))
            account.spend(time.perf_counter, began)

    def hit_ratio(self, tactic: str) -> float:
        """Share of the last batch that the front stage answered."""
        return self._notes[tactic].metrics.hit_ratio if tactic in self._notes else 0.0

    def memory_bytes(self, tactic: str) -> int:
        """Anonymous memory of the engine: what the workers' joins hold, and the front stage in the driver."""
        held = self._keepers[tactic].nbytes if tactic in self._keepers else 0
        return held + (self._notes[tactic].state_bytes if tactic in self._notes else 0)

    def close(self) -> None:
        self._store.unpin("bench")

    def _ready(self, tactic: str) -> Path | None:
        if not JoinSpec.named(tactic).front_stage:
            return None
        with self._pinned.open() as ports:
            return self._keeper(tactic).ready(ports, self._rows_id, self._pinned.schema)

    def _keeper(self, tactic: str) -> FrontStageKeeper:
        if tactic not in self._keepers:
            config = FrontStageConfig(divided(self._budget, 1, JoinSpec.named(tactic))[0])
            self._keepers[tactic] = FrontStageKeeper(self._folder / f"{tactic}.front-stage", config)
        return self._keepers[tactic]
