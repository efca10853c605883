"""When a front stage learns: at once while it is new, then as often as batches pay for it; nothing wanted is lost."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from etl.enrich.front_stage.frequencies import KeyFrequencies
from etl.masters.front_stage.learning import CREDIT_S, LearningAccount


def wanted(key: int, count: int = 1) -> KeyFrequencies:
    return KeyFrequencies(pa.array([key], pa.int64()), np.array([count], np.int64), count)


def costs(account: LearningAccount, seconds: float) -> None:
    account.spend(lambda: seconds, 0.0)


def test_a_new_front_stage_learns_at_once() -> None:
    account = LearningAccount()
    due = account.gather(wanted(1))
    assert due is not None
    assert due.keys.to_pylist() == [1]


def test_what_was_gathered_meanwhile_is_learned_together_when_batches_have_paid_for_it() -> None:
    account = LearningAccount()
    account.gather(wanted(1))
    costs(account, 1.5)
    for key in range(2, 8):
        account.earn(1.0)
        due = account.gather(wanted(key))
        if due is not None:
            break
    else:
        due = None
    assert due is None, "the credit is used up, and a tenth of six seconds does not pay for another round"
    account.earn(10.0)
    due = account.gather(wanted(8))
    assert due is not None
    assert sorted(due.keys.to_pylist()) == list(range(2, 9))


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1)), max_size=60))
def test_learning_takes_its_share_and_the_credit_at_most_one_round_more_and_forgets_nothing(
    batches: list[tuple[float, float]],
) -> None:
    account = LearningAccount()
    learned, longest = 0, 0.0
    for batch_s, round_s in batches:
        account.earn(batch_s)
        due = account.gather(wanted(1))
        if due is not None:
            learned += due.tuples
            costs(account, round_s)
            longest = max(longest, round_s)
    earned = account.share * sum(batch_s for batch_s, _ in batches)
    assert account.spent_s <= CREDIT_S + earned + longest + 1e-6
    waiting = sum(part.tuples for part in account._gathered)
    assert learned + waiting == len(batches)


def test_a_round_that_took_all_credit_and_more_is_not_the_last_one() -> None:
    account = LearningAccount()
    account.gather(wanted(1))
    costs(account, CREDIT_S + 0.05)  # a slow store: the last bite ends after the balance is used up
    account.earn(1.0)
    assert account.gather(wanted(2)) is None
    account.earn(30.0)
    due = account.gather(wanted(3))
    assert due is not None, "batches have paid for all the credit that there is"
    assert sorted(due.keys.to_pylist()) == [2, 3]


def test_keys_that_have_got_another_type_are_other_keys() -> None:
    account = LearningAccount()
    account.gather(wanted(1))
    costs(account, 1.5)
    assert account.gather(wanted(2)) is None
    account.earn(30.0)
    due = account.gather(KeyFrequencies(pa.array(["2"]), np.array([1], np.int64), 1))
    assert due is not None
    assert due.keys.to_pylist() == ["2"]


def test_a_round_goes_on_until_the_balance_is_used_up_or_somebody_waits_for_it() -> None:
    account, now, awaited = LearningAccount(), 10.0, False
    paid = account.paid(lambda: now, 10.0, lambda: not awaited)
    assert paid()
    now = 10.0 + CREDIT_S
    assert not paid()
    now, awaited = 10.0, True
    assert not paid()
