"""Claims against a dictionary: any history of batches and merges gives what the dictionary says."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from etl.adapters import claims as claim
from etl.adapters.claims import ACCEPTED, FREE, RELEASED, WAITING, ClaimIndex, ClaimRun, Claims

KEYS = [(0, 0), (1, 0), (2**64 - 1, 0), (1, 1), (0, 1), (7, 2**63), (5, 5), (6, 6)]
key_sets = st.lists(st.sampled_from(range(len(KEYS))), unique=True, max_size=len(KEYS))


class ClaimsModel(RuleBasedStateMachine):
    """Batches that accept, wait and release; merges of any newest runs."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="claims-")
        self.folder = Path(self._folder.name)
        self.runs: list[ClaimRun] = []  # oldest first
        self.held: dict[int, tuple[int, int, int]] = {}
        self.batch = 0

    def teardown(self) -> None:
        self._folder.cleanup()

    @rule(wanted=key_sets, waits=st.booleans(), payload=st.integers(-(2**63), 2**63 - 1), parts=st.integers(1, 2))
    def take(self, wanted: list[int], waits: bool, payload: int, parts: int) -> None:
        """A batch takes keys that are free, or lets waiting ones go on; two tasks write a run each."""
        self.batch += 1
        state = WAITING if waits else ACCEPTED
        chosen = [key for key in wanted if key not in self.held or (self.held[key][0] == WAITING and not waits)]
        for part in range(parts):
            self._write(f"{self.batch}-{part}", [key for key in chosen if key % parts == part], state, payload)

    @rule(wanted=key_sets)
    def release(self, wanted: list[int]) -> None:
        """A batch gives waiting keys back."""
        self.batch += 1
        waiting = [key for key in wanted if key in self.held and self.held[key][0] == WAITING]
        self._write(f"{self.batch}-r", waiting, RELEASED, 0)

    @rule(count=st.integers(2, 6))
    def merge(self, count: int) -> None:
        chosen = self.runs[-count:]
        if len(chosen) > 1:
            name = f"merged-{self.batch}-{len(list(self.folder.iterdir()))}"
            merged = claim.merge(self.folder, chosen, name, complete=len(chosen) == len(self.runs))
            self.runs = [*self.runs[:-count], merged]

    def _write(self, name: str, keys: list[int], state: int, payload: int) -> None:
        if not keys:
            return
        lo, hi = (np.array([KEYS[key][lane] for key in keys], np.uint64) for lane in (0, 1))
        n = len(keys)
        written = Claims(lo, hi, np.full(n, payload), np.full(n, self.batch), np.full(n, state, np.uint8))
        self.runs.append(claim.write_run(self.folder, name, written))
        for key in keys:
            if state == RELEASED:
                del self.held[key]
            else:
                self.held[key] = (state, payload, self.batch)

    @invariant()
    def answers_as_the_dictionary_does(self) -> None:
        lo, hi = (np.array([key[lane] for key in KEYS], np.uint64) for lane in (0, 1))
        found = ClaimIndex(self.folder, self.runs).find(lo, hi)
        for number, state in enumerate(found.state.tolist()):
            expected = self.held.get(number)
            if expected is None:
                assert state == FREE
            else:
                assert (state, int(found.payload[number]), int(found.batch[number])) == expected


ClaimsModel.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestClaims = ClaimsModel.TestCase
