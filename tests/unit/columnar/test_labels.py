"""Lists of labels against Python's lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from etl.columnar.labels import joined_lists, label_lists, unlabelled

ROWS = st.integers(0, 6)


@given(
    ROWS.flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), max_size=4).map(lambda m: (n, m))),
    st.integers(0, 4),
)
def test_labels_are_listed_row_by_row_in_their_order(drawn: tuple[int, list[list[bool]]], cut: int) -> None:
    rows, flags = drawn
    masks = [(f"m{number}", np.array(mask, np.bool_)) for number, mask in enumerate(flags)]
    expected = [[name for name, mask in masks if mask[row]] for row in range(rows)]
    whole = label_lists(masks, rows)
    whole.validate(full=True)
    assert whole.to_pylist() == expected
    assert unlabelled(whole).tolist() == [not names for names in expected]
    joined = joined_lists(label_lists(masks[:cut], rows), label_lists(masks[cut:], rows))
    joined.validate(full=True)
    assert joined.to_pylist() == expected
