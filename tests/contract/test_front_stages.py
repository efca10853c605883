"""One contract for every front stage that a join may have: the rows it holds answer, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from etl.columnar.keys import encode
from etl.enrich.front_stage.port import FrontStagePort
from etl.enrich.front_stage.rows import KNOWN_ABSENT
from etl.enrich.front_stage.shared import HotRows, SharedFrontStage
from etl.enrich.front_stage.stage import FrontStage, FrontStageConfig

ROWS = 50


def rows_of(kind: str) -> pa.Table:
    numbers = range(ROWS)
    keys = pa.array(numbers, pa.int64()) if kind == "integer" else pa.array([f"key {n}" for n in numbers])
    return pa.table({"key": keys, "name": [f"name {n}" for n in numbers]})


def own(rows: pa.Table) -> FrontStagePort:
    stage = FrontStage(FrontStageConfig(1 << 20))
    stage.learn(rows, np.full(rows.num_rows, 5, np.int64))
    return stage


def shared(rows: pa.Table) -> FrontStagePort:
    return SharedFrontStage(HotRows.of(rows, np.full(rows.num_rows, 5, np.int64)))


STAGES: dict[str, Callable[[pa.Table], FrontStagePort]] = {"own": own, "shared": shared}


@pytest.fixture(params=STAGES)
def make(request: pytest.FixtureRequest) -> Callable[[pa.Table], FrontStagePort]:
    return STAGES[request.param]


@pytest.fixture(params=["integer", "text"])
def rows(request: pytest.FixtureRequest) -> pa.Table:
    return rows_of(request.param)


def other_keys(rows: pa.Table) -> pa.Array:
    strange = range(ROWS, 2 * ROWS)
    return pa.array(strange, pa.int64()) if pa.types.is_integer(rows.schema.types[0]) else pa.array(map(str, strange))


def test_every_row_it_holds_answers_with_itself(make: Callable[[pa.Table], FrontStagePort], rows: pa.Table) -> None:
    stage = make(rows)
    keys = rows.column(0).combine_chunks()
    entry = stage.probe(encode(keys), 0.0)
    assert (entry >= 0).all()
    stage.record(entry, len(entry))
    table, position = stage.answers(entry)
    assert table.column("key").take(pa.array(position)).combine_chunks().equals(keys)
    assert table.column("name").take(pa.array(position)).to_pylist() == rows.column("name").to_pylist()


def test_other_keys_miss(make: Callable[[pa.Table], FrontStagePort], rows: pa.Table) -> None:
    assert (make(rows).probe(encode(other_keys(rows)), 0.0) < 0).all()


def test_keys_learned_to_be_absent_are_known_absent(make: Callable[[pa.Table], FrontStagePort], rows: pa.Table) -> None:
    stage, absent = make(rows), encode(other_keys(rows))
    stage.learn_absent(absent, 0.0)
    assert (stage.probe(absent, 1.0) == KNOWN_ABSENT).all()
    assert (stage.probe(encode(rows.column(0)), 1.0) >= 0).all(), "rows that it holds still answer"


def test_it_counts_its_rows_and_bytes(make: Callable[[pa.Table], FrontStagePort], rows: pa.Table) -> None:
    stage = make(rows)
    assert len(stage) == ROWS
    assert stage.nbytes > 0
