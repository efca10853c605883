"""Compare a batch with earlier ones: part of its audit, stored with the verdict; a warning unless declared to hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from etl.adapters.ledger import BatchRecord
from etl.contract.model import Pipeline
from etl.validate.distribution import Finding, Profile, judge
from etl.validate.profile import as_json, profile


def compare(
    verdict: dict[str, Any], past: Sequence[Profile], record: BatchRecord, accepted: pa.Table | None, pipeline: Pipeline
) -> dict[str, Any]:
    """The verdict with the batch's figures and findings; a finding that is declared to hold the batch is a failure."""
    figures = profile(record.counts, accepted, pipeline)
    found = judge(figures, past)
    failed = [_failure(one) for one in found if one.kind in pipeline.hold_on]
    return verdict | {
        "success": verdict["success"] and not failed,
        "expectations": [*verdict["expectations"], *failed],
        "profile": as_json(figures),
        "unusual": [one.as_json() for one in found],
    }


def _failure(finding: Finding) -> dict[str, Any]:
    """A finding that holds the batch, in the form of a failed expectation."""
    kind, _, subject = finding.check.partition(":")
    return {
        "name": f"expect_{kind}_as_in_the_last_batches",
        "column": subject or None,
        "success": False,
        "unexpected": 0,
        "observed": f"{finding.value:g}, expected {finding.low:g} to {finding.high:g}",
    }


def sentence(finding: Finding) -> str:
    """`the mean of weight is 105.2; the last 60 batches expect 9.1 to 11.4`."""
    _, _, subject = finding.check.partition(":")
    what = {
        "volume": "the number of lines",
        "quarantined": "the share of quarantined lines",
        "duplicates": "the share of duplicates",
        "unmatched": f"the share of events without a row of {subject}",
        "hit_ratio": f"the hit ratio of {subject}",
        "null_share": f"the share of nulls in {subject}",
        "mean": f"the mean of {subject}",
    }[finding.kind]
    return f"{what} is {finding.value:g}; the last {finding.batches} batches expect {finding.low:g} to {finding.high:g}"
