"""OpenLineage: one event per batch with the datasets that a run read and wrote, by the specification.

The event is posted as JSON; the client library is not needed for one request. Names: landing folders and Delta tables
are `file` datasets, topics `kafka` ones, masters and the mart `postgres` or `file` ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from etl.contract.model import Pipeline
from etl.observe.facts import BatchFacts

_PRODUCER = "urn:frontstage"
_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_RUNS = uuid.UUID("6f1f6c52-5f3a-5d1e-9a53-0d7c1a7f5b10")


def event(facts: BatchFacts, pipeline: Pipeline, warehouse: Path, home: Path) -> dict[str, Any]:
    """The event of a batch; the same batch always has the same run."""
    state = "COMPLETE" if facts.state == "loaded" else "FAIL"
    return {
        "eventType": state,
        "eventTime": facts.ended_at.isoformat(),
        "producer": _PRODUCER,
        "schemaURL": _SCHEMA,
        "run": {"runId": str(uuid.uuid5(_RUNS, f"{warehouse}/{facts.pipeline}/{facts.batch}"))},
        "job": {"namespace": "frontstage", "name": facts.pipeline},
        "inputs": [*_inputs(pipeline, home)],
        "outputs": [*_outputs(facts, pipeline, warehouse)],
    }


def _inputs(pipeline: Pipeline, home: Path) -> Iterator[dict[str, Any]]:
    source = pipeline.stream.source
    if source.topic is not None:
        yield {"namespace": f"kafka://{(source.topic.servers or 'default').split(',')[0]}", "name": source.topic.name}
    else:
        yield {"namespace": "file", "name": str(source.landing)}
    for master in pipeline.masters:
        yield {"namespace": "postgres" if master.store == "postgres" else "file", "name": master.location(home)}


def _outputs(facts: BatchFacts, pipeline: Pipeline, warehouse: Path) -> Iterator[dict[str, Any]]:
    for table, count in (("fact", "accepted"), ("quarantine", "quarantined"), ("backlog", "backlog_added")):
        statistics = {"rowCount": facts.counts[count], "_producer": _PRODUCER, "_schemaURL": _SCHEMA}
        name = str(warehouse / pipeline.name / table)
        yield {"namespace": "file", "name": name, "outputFacets": {"outputStatistics": statistics}}
    for mart in pipeline.mart:
        yield {"namespace": "postgres", "name": f"mart.{mart.name}"}
