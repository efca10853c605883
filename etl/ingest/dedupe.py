"""The first acceptable payload of a key wins; the same again is a duplicate, another one a conflict.

    key taken by an earlier batch ─┐
    first clean row of this batch ─┴─▶ claim ─▶ candidate | duplicate | conflict

A row with reasons is refused and claims nothing, so a corrected event may follow under the same key.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from etl.columnar.keys import I64, Keys, distinct

CANDIDATE, DUPLICATE, CONFLICT = 0, 1, 2
CONFLICTING_PAYLOAD = "conflicting_payload"


def classify(keys: Keys, payload: I64, taken: npt.NDArray[np.bool_], taken_by: I64) -> npt.NDArray[np.int8]:
    """Classify clean rows in order of arrival; `taken_by` is the payload that claims a taken key."""
    groups = distinct(keys)
    claim = np.where(taken, taken_by, payload[groups.first[groups.codes]])
    is_first = np.zeros(len(payload), bool)
    is_first[groups.first] = True
    kind = np.full(len(payload), DUPLICATE, np.int8)
    kind[is_first & ~taken] = CANDIDATE
    kind[payload != claim] = CONFLICT
    return kind
