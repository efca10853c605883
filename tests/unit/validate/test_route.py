"""Where candidates go: three disjoint sets that are all of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from etl.validate.route import route

flags = st.lists(st.tuples(*[st.booleans()] * 5), min_size=1, max_size=20).map(lambda rows: np.array(rows, bool).T)


@given(flags, st.sets(st.sampled_from(["a", "b", "c"])))
def test_every_candidate_goes_one_way_and_only_missing_required_rows_stop_it(
    drawn: np.ndarray, required: set[str]
) -> None:
    found, shed, impatient = dict(zip("abc", drawn[:3], strict=True)), drawn[3], drawn[4]
    routes = route(found, frozenset(required), shed, impatient)
    ways = routes.accepted.astype(int) + routes.backlog + routes.quarantined
    assert (ways == 1).all()
    reasons = routes.reasons(np.arange(len(shed))).to_pylist()
    for row in range(len(shed)):
        absent = [f"unknown_{name}" for name in sorted(required) if not found[name][row]]
        if shed[row]:
            assert routes.backlog[row], "an event for which there was no time is never given up"
            assert reasons[row] == ["shed"]
        elif absent:
            assert (routes.quarantined if impatient[row] else routes.backlog)[row]
            assert sorted(reasons[row]) == absent
        else:
            assert routes.accepted[row]


def test_without_masters_everything_is_accepted() -> None:
    nobody = np.zeros(3, bool)
    assert route({}, frozenset(), nobody, np.ones(3, bool)).accepted.all()
