"""One micro-batch up to its decision: ingest, enrich, check, and one staging commit.

    landing ─availableNow─▶ lines ─parse─▶ rules ─claims─▶ verdict ┐
                                             backlog that waits ───┴─▶ enrich ─▶ route ─▶ ONE staging commit

What staging holds is never decided again: a repeated batch is recognised by its number and left alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from etl.adapters.delta import Warehouse
from etl.adapters.ledger import Ledger
from etl.ingest import dedupe, landing, parse
from etl.masters.masters import PinnedMaster, versions_of
from etl.model import BatchCounts, BatchId, JoinCounts, Progress
from etl.settings import Settings
from etl.spark.claims import still_waiting, with_claims
from etl.spark.crossing import unpacked
from etl.spark.engine import Engine
from etl.spark.engine_notes import collector
from etl.spark.enrich import enrich
from etl.spark.load import staged
from etl.spark.session import set_arrow_batch_limit
from etl.validate import route, rules
from warehouse import star
from warehouse.contract import Contract

Clock = Callable[[], datetime]


class _OneIsEnough(Exception):
    """A run decides one batch."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Everything a decision needs, fixed before it is made."""

    warehouse: Warehouse
    ledger: Ledger
    settings: Settings
    contract: Contract
    engine: Engine
    dsn: str = field(repr=False)
    run_id: str
    clock: Clock
    say: Progress

    def next(self) -> BatchId | None:
        """Decide the next batch: what has landed, or else what waited and can go on now. None when there is neither."""
        self._readmit()
        return self._from_stream() or self._from_backlog()

    def settle(self) -> None:
        """Bring the ledger up to staging: a run may have ended between the two."""
        note = self.warehouse.last_staged()
        last = self.ledger.last()
        if note is not None and (last is None or last.batch.number < note["batch"]):
            batch, started_at = BatchId.of(note["batch"]), datetime.fromisoformat(note["started_at"])
            self.ledger.staged(batch, note["run_id"], started_at, self._counts(batch), note["versions"])
            here = landing.present(self.settings.landing)
            self.ledger.note_files(batch, [here[name] for name in note["files"] if name in here])

    def _readmit(self) -> None:
        names = landing.present(self.settings.landing)
        known = {file.name: file for file in self.ledger.files_named(names)}
        landing.readmit(self.settings.landing, known)
        # A file that was read, and whose batch is loaded, was left behind by a run that ended too early.
        for file in known.values():
            landing.archive(self.settings.landing, self.settings.archive / "recovered", [file])

    # ── from the stream ────────────────────────────────────────────────────────────────────────────────────────

    def _from_stream(self) -> BatchId | None:
        """Run the stream over what has landed, and end it after one new batch.

        A second one may follow when an earlier run broke off: Spark repeats its batch and goes on with what landed
        since. It would be judged without the first one's claims, so it is left, uncommitted, to the next run.
        """
        decided: list[BatchId] = []
        failure: list[BaseException] = []

        def on_batch(lines: DataFrame, stream_batch: int) -> None:
            try:
                if decided:  # files that landed behind a batch of an earlier, broken run
                    raise _OneIsEnough
                batch = self._decide_lines(lines, stream_batch)
                if batch is not None:
                    decided.append(batch)
            except BaseException as error:  # crosses the JVM as text only; keep the error itself
                failure.append(error)
                raise

        query = (
            self._lines()
            .writeStream.foreachBatch(on_batch)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception:
            if not failure:
                raise
            if not isinstance(failure[0], _OneIsEnough):
                raise failure[0] from None
        finally:
            query.stop()
        return decided[-1] if decided else None

    def _lines(self) -> DataFrame:
        lines = (
            self.warehouse.spark.readStream.format("text")
            .option("lineSep", "\n")
            .option("pathGlobFilter", landing.PATTERN)
            .option("maxFileAge", "36500d")  # by default a file with an old date would be passed over in silence
            .load(str(self.settings.landing))
        )
        return parse.with_origin(lines)

    @property
    def _checkpoint(self) -> Path:
        return self.settings.warehouse / "checkpoints" / "orders"

    def _decide_lines(self, lines: DataFrame, stream_batch: int) -> BatchId | None:
        checkpoint_id = json.loads((self._checkpoint / "metadata").read_text())["id"]
        batch = BatchId(self.ledger.sequence_base(checkpoint_id) + stream_batch)
        note = self.warehouse.last_staged()
        if note is not None and note["batch"] >= batch.number:
            return None
        names = landing.files_of_batch(self._checkpoint, stream_batch)
        read = [file for name, file in landing.present(self.settings.landing).items() if name in names]
        orders = parse.parse(parse.numbered(lines), self.contract)
        self._decide(batch, orders, read)
        return batch

    # ── from the backlog ───────────────────────────────────────────────────────────────────────────────────────

    def _from_backlog(self) -> BatchId | None:
        """Nothing has landed, but orders may wait for master rows that have come meanwhile."""
        last = self.ledger.last()
        if last is None or not self.ledger.waiting():
            return None
        batch = last.batch.after()
        return batch if self._decide(batch, None) else None

    def _waiting(self, masters: Iterable[PinnedMaster], now: datetime) -> DataFrame | None:
        """The orders worth another try: none while the masters are what they were when these orders missed.

        Orders that were shed missed nothing but time; they are tried again by the next batch, whatever it is.
        """
        batches = self.ledger.waiting()
        last = self.ledger.last()
        if not batches or last is None:
            return None
        impatient = self.ledger.waiting_since() < now - self.settings.backlog_grace
        if last.master_versions == versions_of(masters) and not impatient and not self.ledger.shed():
            return None
        stored = self.warehouse.read(star.BACKLOG).where(F.col("batch").isin(batches))
        return still_waiting(stored, self.dsn)

    # ── the decision ───────────────────────────────────────────────────────────────────────────────────────────

    def _decide(self, batch: BatchId, orders: DataFrame | None, files: Sequence[landing.LandedFile] = ()) -> bool:
        """Stage the batch in one commit. False, and no commit, when there is nothing to decide."""
        now = self.clock()
        with self.engine.pinned(str(batch), now, self.say) as masters, unpacked():
            rows = self._candidates(orders, self._waiting(masters, now), now)
            if rows is None:
                return False
            for session in (self.warehouse.spark, rows.sparkSession):  # a stream has a session of its own
                set_arrow_batch_limit(session, sum(file.size for file in files))
            notes = collector(self.warehouse.spark.sparkContext)
            enriched = enrich(rows, self.engine.plan(masters), notes)
            names = [one.master.name for one in masters]
            decided = route.decide(enriched, names, now, self.settings.backlog_grace).withColumns(
                {
                    "batch": F.lit(batch.number).cast("bigint"),
                    **{f"{one.master.name}_version": F.lit(one.version).cast("bigint") for one in masters},
                }
            )
            if orders is None and decided.isEmpty():
                return False
            versions = versions_of(masters)
            note = {
                "batch": batch.number,
                "run_id": self.run_id,
                "started_at": now.isoformat(),
                "versions": versions,
                "files": [file.name for file in files],
            }
            self.warehouse.append(decided, star.STAGING, batch, json.dumps(note))
            kept = self.engine.learn(masters, notes.value)
        self.ledger.note_files(batch, files)  # before the batch itself: `settle` looks for batches only
        self.ledger.staged(batch, self.run_id, now, self._counts(batch), versions)
        self.ledger.fared(batch, {name: told.as_json(kept.get(name)) for name, told in notes.value.items()})
        return True

    def _candidates(self, orders: DataFrame | None, waiting: DataFrame | None, now: datetime) -> DataFrame | None:
        parts = []
        if orders is not None:
            parts.append(self._judged(orders, now))
        if waiting is not None:
            parts.append(waiting)
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])

    def _judged(self, orders: DataFrame, now: datetime) -> DataFrame:
        broken = F.expr(rules.broken(self.contract.rules, bounds(self.settings, now)))
        checked = orders.withColumn("reasons", F.concat("reasons", broken))
        return (
            dedupe.judge(with_claims(checked, self.dsn))
            .drop("line")
            .withColumns({"from_backlog": F.lit(False), "waiting_since": F.lit(None).cast("timestamp")})
        )

    def _counts(self, batch: BatchId) -> BatchCounts:
        return count(staged(self.warehouse, batch), self.contract)


def bounds(settings: Settings, now: datetime) -> rules.Bounds:
    """What `$oldest` and `$latest` stand for in a batch that starts now."""
    oldest = datetime.fromisoformat(settings.oldest_order).replace(tzinfo=UTC)
    return {"oldest": oldest, "latest": now + settings.future_tolerance}


def count(rows: DataFrame, contract: Contract) -> BatchCounts:
    """What became of a batch's lines, in one pass over its staging partition."""
    is_new, routed = ~F.col("from_backlog"), F.col("route")
    masters, reasons = [master.name for master in contract.masters], sorted(contract.reasons())
    sums = {
        "landed": is_new,
        "accepted": routed == "accepted",
        "quarantined": routed == "quarantined",
        "duplicates": routed == "duplicate",
        "backlog_added": routed == "backlog",
        "backlog_resolved": F.col("from_backlog"),
        "shed": (routed == "backlog") & F.array_contains("reasons", route.SHED),
    }
    for name in masters:
        sums[f"{name}_probes"] = F.col(f"{name}_hit").isNotNull()
        sums[f"{name}_hits"] = F.col(f"{name}_hit")
        sums[f"{name}_unmatched"] = F.col(f"{name}_hit").isNotNull() & F.col(name).isNull()
    for reason in reasons:
        sums[f"reason {reason}"] = (routed == "quarantined") & F.array_contains("reasons", reason)
    totals = rows.agg(*[F.count_if(condition).alias(name) for name, condition in sums.items()]).head()
    assert totals is not None, "an aggregate has one row"
    return BatchCounts(
        **{name: totals[name] for name in list(sums)[:7]},
        reasons={reason: totals[f"reason {reason}"] for reason in reasons if totals[f"reason {reason}"]},
        joins={name: _join_counts(totals, name) for name in masters},
    )


def _join_counts(totals: Row, name: str) -> JoinCounts:
    return JoinCounts(totals[f"{name}_probes"], totals[f"{name}_hits"], totals[f"{name}_unmatched"])
