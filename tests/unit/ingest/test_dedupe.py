"""The first acceptable payload of a key wins: verdicts against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from etl.columnar.keys import encode
from etl.ingest.dedupe import CANDIDATE, CONFLICT, DUPLICATE, classify

rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=30)
taken = st.dictionaries(st.integers(0, 4), st.integers(0, 2))


def verdicts(events: list[tuple[int, int]], held: dict[int, int]) -> list[int]:
    keys = encode(pa.array([key for key, _ in events], pa.int64()))
    payload = np.array([payload for _, payload in events], np.int64)
    is_taken = np.array([key in held for key, _ in events], bool)
    by = np.array([held.get(key, 0) for key, _ in events], np.int64)
    return classify(keys, payload, is_taken, by).tolist()


@given(rows, taken)
def test_the_verdicts_are_those_of_one_row_after_the_other(events: list[tuple[int, int]], held: dict[int, int]) -> None:
    claims, expected = dict(held), []
    for key, payload in events:
        if key not in claims:
            claims[key] = payload
            expected.append(CANDIDATE)
        else:
            expected.append(DUPLICATE if claims[key] == payload else CONFLICT)
    assert verdicts(events, held) == expected


def test_a_taken_key_is_held_by_the_payload_that_took_it_not_by_the_first_of_this_batch() -> None:
    assert verdicts([(1, 7), (1, 8), (1, 7)], {1: 8}) == [CONFLICT, DUPLICATE, CONFLICT]
