"""Run reports with plausible figures, so that pages under test look like pages in use."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from etl.report.model import (
    Counts,
    ExpectationResult,
    Gate,
    HistoryPoint,
    JoinReport,
    Percentiles,
    RunReport,
    Sample,
    Totals,
)

START = datetime(2026, 11, 16, 9, 0, 12, tzinfo=UTC)

HOSTILE = '</code></td><script>alert("x")</script><img src=x onerror=alert(1)>'

REASONS = {
    "malformed_json": 41,
    "unit_price_out_of_range": 33,
    "quantity_not_positive": 29,
    "ordered_at_in_future": 17,
    "conflicting_duplicate": 12,
    "customer_id_missing": 9,
    "ordered_at_too_old": 7,
    "bad_utf8": 4,
    "product_id_missing": 2,
    "unit_price_nan": 1,
}

SAMPLES = (
    Sample(reason="malformed_json", raw='{"order_id": 4711, "customer_id": 12', source_file="orders-00042.jsonl"),
    Sample(reason="malformed_json", raw=HOSTILE, source_file="orders-00042.jsonl"),
    Sample(
        reason="quantity_not_positive",
        raw='{"order_id":190233,"customer_id":88123,"product_id":1907,"quantity":-3,"unit_price":19.99,'
        '"ordered_at":"2026-11-16T09:58:01.402Z"}',
        source_file="orders-00043.jsonl",
    ),
    Sample(
        reason="bad_utf8",
        raw=b'{"order_id": 9, "note": "\xff\xfe\x00\x1b[31m"}',
        source_file="orders-00043.jsonl",
    ),
    Sample(reason="unit_price_out_of_range", raw="{" + "9" * 900 + "}", source_file="orders-00044.jsonl"),
)


def history(batches: int) -> tuple[HistoryPoint, ...]:
    """Batches a minute apart: the front stage warms up, the backlog swells once and drains."""
    dice = random.Random(7)
    points = []
    for n in range(batches):
        landed = round(3200 + 900 * dice.random() + (2600 if 24 <= n <= 29 else 0))
        quarantined, duplicates = (
            round(landed * 0.012 * dice.uniform(0.5, 1.6)),
            round(landed * dice.uniform(0.004, 0.02)),
        )
        swell = max(0, 480 - abs(n - 30) * 26)
        p50 = dice.uniform(31, 38) + swell / 40
        points.append(
            HistoryPoint(
                batch=f"{n + 1:06d}",
                finished_at=START + timedelta(minutes=n, seconds=dice.uniform(0, 4)),
                accepted=landed - quarantined - duplicates,
                quarantined=quarantined,
                duplicates=duplicates,
                backlog_open=110 + swell + dice.randrange(30),
                hit_ratio=0.93 * (1 - 0.7 ** (n + 1)) + dice.uniform(-0.012, 0.012),
                freshness_p50_s=p50,
                freshness_p95_s=p50 * dice.uniform(1.6, 2.0),
                seconds=dice.uniform(9, 13) + swell / 100,
            )
        )
    return tuple(points)


def gate(success: bool = True) -> Gate:
    """The verdict on six expectations, of which two fail when it is not a success."""
    between = ExpectationResult(
        name="expect_column_values_to_be_between",
        column="quantity",
        success=success,
        unexpected=0 if success else 118,
        observed="1 … 50" if success else "-3 … 50",
    )
    rows = ExpectationResult(
        name="expect_table_row_count_to_be_between", success=success, observed="3518" if success else "12"
    )
    fine = tuple(
        ExpectationResult(name=name, column=column, success=True, observed=observed)
        for name, column, observed in (
            ("expect_column_values_to_not_be_null", "order_id", None),
            ("expect_column_values_to_be_unique", "order_id", None),
            ("expect_column_values_to_not_be_null", "customer_name", None),
            ("expect_column_max_to_be_between", "ordered_at", "2026-11-16 09:59:58"),
        )
    )
    return Gate(success=success, expectations=(*fine, between, rows), data_docs="../../data_docs/index.html")


def _join(master: str, probes: int, hits: int, unmatched: int) -> JoinReport:
    version = "2026-11-16 09:59:58.113"
    return JoinReport(
        master=master, tactic="cinlj", master_version=version, probes=probes, hits=hits, unmatched=unmatched
    )


def loaded(batch: str = "000061", batches: int = 59, finished_at: datetime | None = None) -> RunReport:
    """A batch that went well, with a little of every kind of dirt."""
    finished_at = finished_at or START + timedelta(minutes=60)
    return RunReport(
        batch=batch,
        run_id=f"scheduled__{finished_at:%Y-%m-%dT%H:%M:%S}+00:00",
        started_at=finished_at - timedelta(seconds=11.42),
        finished_at=finished_at,
        outcome="loaded",
        message="3,518 events were enriched, checked and loaded.",
        seconds={"ingest_enrich": 5.83, "validate": 3.12, "load": 2.21},
        counts=Counts(
            landed=3715,
            accepted=3518,
            quarantined=sum(REASONS.values()),
            duplicates=49,
            backlog_added=18,
            backlog_resolved=25,
        ),
        totals=Totals(
            events_landed=200_000,
            fact=193_214,
            quarantine=4_102,
            duplicates=2_561,
            backlog_open=123,
            unmatched_open=123,
        ),
        reasons=REASONS,
        quarantine_samples=SAMPLES,
        joins=(_join("customers", 3585, 3301, 18), _join("products", 3567, 3342, 0)),
        freshness_s=Percentiles(p50=34.6, p95=61.9),
        gate=gate(),
        history=history(batches),
    )


def series(batches: int) -> tuple[RunReport, ...]:
    """Reports of consecutive batches, oldest first, with the figures of `history`."""
    return tuple(
        loaded(batch=point.batch, batches=n, finished_at=point.finished_at).model_copy(
            update={
                "started_at": point.finished_at - timedelta(seconds=point.seconds),
                "counts": Counts(
                    landed=point.accepted + point.quarantined + point.duplicates,
                    accepted=point.accepted,
                    quarantined=point.quarantined,
                    duplicates=point.duplicates,
                ),
                "joins": (_join("customers", 10_000, round(10_000 * (point.hit_ratio or 0)), 0),),
                "freshness_s": Percentiles(p50=point.freshness_p50_s or 0, p95=point.freshness_p95_s or 0),
            }
        )
        for n, point in enumerate(history(batches))
    )


def held() -> RunReport:
    """A batch the gate refused."""
    return loaded().model_copy(
        update={
            "outcome": "held",
            "message": "Held: 2 of 6 expectations failed. Nothing of it was loaded.",
            "gate": gate(success=False),
            "freshness_s": None,
        }
    )


def empty(batches: int = 12) -> RunReport:
    """A run that found nothing new."""
    return loaded(batches=batches).model_copy(
        update={
            "outcome": "empty",
            "message": "The landing folder holds no new events.",
            "counts": Counts(),
            "seconds": {"ingest_enrich": 0.41},
            "reasons": {},
            "quarantine_samples": (),
            "joins": (),
            "freshness_s": None,
            "gate": None,
        }
    )


def extreme() -> RunReport:
    """Figures and names as large as they get: weeks of history, billions of events, endless names."""
    points = tuple(
        point.model_copy(
            update={
                "finished_at": START + timedelta(days=n),
                "accepted": point.accepted * 12_345,
                "backlog_open": point.backlog_open * 10_000_000,
                "freshness_p95_s": 100_000.0 + n,
            }
        )
        for n, point in enumerate(history(40))
    )
    return loaded(finished_at=START + timedelta(days=41)).model_copy(
        update={
            "history": points,
            "run_id": "manual__" + "x" * 200,
            "message": "w" * 400,
            "seconds": {"ingest_enrich": 86_399.0, "validate": 0.0004, "load": 7_265.0},
            "reasons": {f"{'a_rule_with_a_very_long_name_' * 3}{n}": 10 ** (9 - n) for n in range(10)},
            "counts": Counts(landed=9_876_543_210, accepted=9_876_543_210, backlog_added=987_654_321),
            "totals": Totals(events_landed=9_876_543_210, fact=9_876_543_210),
            "joins": (_join("m" * 80, 9_876_543_210, 9_876_543_209, 1),),
            "freshness_s": Percentiles(p50=-30.0, p95=9_999_999.0),
            "quarantine_samples": (Sample(reason="r" * 200, raw="y" * 300, source_file="f" * 200),),
        }
    )


def unbalanced(events: int) -> RunReport:
    """A report whose totals miss some events, or hold some twice when `events` is negative."""
    report = loaded()
    totals = report.totals.model_copy(update={"fact": report.totals.fact - events})
    return report.model_copy(update={"totals": totals})
