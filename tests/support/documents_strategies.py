"""Documents to try everything with: few attributes and values, so that sharing and conflicts are common."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from etl.correlate.documents.joining.plain import as_mappings, nested_loop
from etl.correlate.documents.model import Documents, Pairs, documents_of

ROWS = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("012"), max_size=6), min_size=0, max_size=24
)
# With a fixed part some attributes are in all documents; with many attributes the masks of 64 bits overlap.
UBIQUITOUS_ROWS = st.lists(
    st.builds(
        lambda fixed, rest: fixed | rest,
        st.fixed_dictionaries({"u": st.sampled_from("01"), "v": st.sampled_from("012")}),
        st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("01"), max_size=4),
    ),
    max_size=24,
)
MANY_ATTRIBUTES = st.lists(
    st.dictionaries(st.integers(0, 150).map(str), st.sampled_from("01"), max_size=5), max_size=24
)
ANY_ROWS = st.one_of(ROWS, UBIQUITOUS_ROWS, MANY_ATTRIBUTES)


def documents(rows: list[dict[str, str]]) -> Documents:
    return documents_of(rows)


def oracle(of: Documents) -> list[tuple[int, int]]:
    """All joinable pairs by the definition, earlier document first."""
    found = enumerate(nested_loop(as_mappings(of)))
    return sorted((int(of.ids[before]), int(of.ids[later])) for later, partners in found for before in partners)


def listed(pairs: Pairs) -> list[tuple[int, int]]:
    """Pairs in order, with repetition if there is any."""
    return sorted(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))


def batches(of: Documents, cuts: list[int]) -> list[Documents]:
    """The documents in batches that end at the cuts."""
    ends = sorted({min(cut, len(of)) for cut in cuts} | {0, len(of)})
    return [of.take(np.arange(low, high)) for low, high in pairwise(ends)]
