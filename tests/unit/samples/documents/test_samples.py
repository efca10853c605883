"""The generated streams are the same for the same seed and have what makes them worth joining."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from etl.correlate.documents.flatten import DocumentEncoder, FlattenOptions
from etl.correlate.documents.joining.fp_join import join
from etl.correlate.documents.joining.tree import FPTree
from etl.correlate.documents.model import Documents
from etl.samples.documents.nobench import nobench
from etl.samples.documents.server_logs import server_logs

GENERATORS = [nobench, server_logs]
Generator = Callable[..., Iterator[bytes]]


def encoded(lines: list[bytes]) -> Documents:
    result = DocumentEncoder(FlattenOptions(ignore=frozenset({"time"}))).encode(lines, np.arange(len(lines)))
    assert result.rejected == ()
    return result.documents


@pytest.mark.parametrize("generator", GENERATORS)
def test_the_same_seed_makes_the_same_lines_and_another_one_others(generator: Generator) -> None:
    one, again, other = (list(generator(200, seed=seed)) for seed in (1, 1, 2))
    assert one == again != other
    assert len(one) == 200


def test_nobench_has_its_attributes_but_no_num() -> None:
    documents = [json.loads(line) for line in nobench(300, seed=3)]
    always = set.intersection(*(set(document) for document in documents))
    assert always == {"str1", "str2", "bool", "dyn1", "dyn2", "nested_arr", "nested_obj", "thousandth"}
    assert all(sum(name.startswith("sparse_") for name in document) == 10 for document in documents)
    assert {type(document["dyn2"]) for document in documents} == {int, str, bool}


def test_nobench_objects_recur_and_join() -> None:
    found = encoded(list(nobench(400, seed=4)))
    assert len(join(found)) > 100
    assert FPTree.build(found).ubiquitous >= 6


def test_a_drifting_nobench_leaves_its_first_objects_behind() -> None:
    lines = [json.loads(line)["str1"] for line in nobench(1000, seed=5, objects=100, drift=1.0)]
    assert not set(lines[:200]) & set(lines[-200:])


def test_server_logs_hold_failed_logins_and_file_accesses_of_the_same_user() -> None:
    lines = list(server_logs(600, seed=6))
    events, pairs = [json.loads(line) for line in lines], join(encoded(lines))
    kinds = Counter(
        frozenset(
            ("failed" if events[place].get("MsgId") == 2 else "file" if "Access" in events[place] else "other")
            for place in pair
        )
        for pair in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    )
    assert kinds[frozenset({"failed", "file"})] > 50
    assert all(
        events[one].get("User", events[two].get("User")) == events[two].get("User", events[one].get("User"))
        for one, two in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    )


def test_server_logs_have_no_field_that_all_share_but_time() -> None:
    events = [json.loads(line) for line in server_logs(600, seed=7)]
    assert set.intersection(*(set(event) for event in events)) == {"time"}
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
