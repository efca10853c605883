"""Admission and eviction of the front stage: three policies behind one interface (ADR 13).

estimate   how frequent are these keys?                    (and counts them)
choose     which candidates enter, how many victims leave  (victims are sorted, least frequent first)
forget     rows of these keys were evicted
fade       number of times to halve all frequencies now    (aging, and drift of the stream)
adapt      move the admission threshold

paper      a row enters when it matched at least `threshold` pending tuples, whatever it displaces
tinylfu    a row enters when it is more frequent than those it displaces; a sketch counts keys that are not inside
static     nothing enters after the first filling: the clairvoyant bound of benchmarks
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from etl.columnar.keys import I64, Keys
from etl.columnar.sketch import CountMinSketch
from etl.enrich.errors import UnknownChoice

PolicyName = Literal["paper", "tinylfu", "static"]
POLICIES: tuple[PolicyName, ...] = ("paper", "tinylfu", "static")
_DRIFT = 0.75  # of the usual hit ratio: below it, the stream has drifted
_DRIFT_HALVINGS = 4
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows to compare: frequency and size."""

    frequency: F32
    size: I64


class Policy(Protocol):
    """An admission and eviction policy."""

    threshold: int

    @property
    def nbytes(self) -> int: ...

    def estimate(self, keys: Keys, counts: I64) -> F32: ...

    def choose(self, candidates: Entries, victims: Entries, free: Free) -> tuple[I64, int]: ...

    def forget(self, keys: Keys, frequency: F32) -> None: ...

    def fade(self, tuples: int, hits: int, rows: int) -> int: ...

    def adapt(self, *, full: bool, evicted: int, refused: int, rows: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Free:
    """Free capacity: bytes and row entries."""

    size: int
    rows: int


def _victims_needed(sizes: I64, victims: Entries, free: Free) -> I64:
    """How many victims make room for the first 1, 2, … candidates; one more than there are means no room."""
    missing = np.cumsum(sizes) - free.size
    for_bytes = np.where(missing <= 0, 0, np.searchsorted(np.cumsum(victims.size), missing) + 1)
    for_rows = np.arange(1, len(sizes) + 1) - free.rows
    return np.maximum(for_bytes, for_rows)


class PaperPolicy:
    """The paper's: enter at `threshold`, displace the least frequent.

    The threshold falls when rows were refused although there is room, and rises when more than `eviction_share` of
    the front stage was displaced since the last call.
    """

    def __init__(self, threshold: int = 2, eviction_share: float = 0.05, lowest: int = 1) -> None:
        self.threshold = threshold
        self._eviction_share = eviction_share
        self._lowest = lowest

    @property
    def nbytes(self) -> int:
        return 0

    def estimate(self, keys: Keys, counts: I64) -> F32:
        assert len(keys) == len(counts), "one count per key"
        return counts.astype(np.float32)

    def choose(self, candidates: Entries, victims: Entries, free: Free) -> tuple[I64, int]:
        enter = np.flatnonzero(candidates.frequency >= self.threshold)
        enter = enter[np.argsort(-candidates.frequency[enter], kind="stable")]
        needed = _victims_needed(candidates.size[enter], victims, free)
        fits = int(np.searchsorted(needed, len(victims.size), side="right"))
        return enter[:fits], int(needed[fits - 1]) if fits else 0

    def forget(self, keys: Keys, frequency: F32) -> None:
        """Does nothing: no statistics on evicted rows."""

    def fade(self, tuples: int, hits: int, rows: int) -> int:  # noqa: ARG002
        return 0

    def adapt(self, *, full: bool, evicted: int, refused: int, rows: int) -> None:
        if not full and refused:
            self.threshold = max(self._lowest, self.threshold - 1)
        elif evicted > self._eviction_share * max(1, rows):
            self.threshold += 1


class TinyLfuPolicy:
    """Enter when more frequent than what is displaced; old counts fade.

    Counts are halved after `window` tuples per row held: slowly, to distinguish rows of nearly equal frequency.
    When the hit ratio falls below three quarters of the usual one, the stream has drifted: counts are halved
    several times at once, so that newly frequent keys are admitted.
    """

    def __init__(self, sketch: CountMinSketch, window: float = 128.0) -> None:
        self.threshold = 0
        self._sketch = sketch
        self._window = window
        self._tuples = 0
        self._recent_tuples = self._recent_hits = 0
        self._usual = 0.0

    @property
    def nbytes(self) -> int:
        return self._sketch.nbytes

    def estimate(self, keys: Keys, counts: I64) -> F32:
        return self._sketch.add(keys, counts).astype(np.float32)

    def choose(self, candidates: Entries, victims: Entries, free: Free) -> tuple[I64, int]:
        enter = np.argsort(-candidates.frequency, kind="stable")
        needed = _victims_needed(candidates.size[enter], victims, free)
        last = np.minimum(needed, len(victims.size)) - 1
        price = np.where(needed > 0, victims.frequency[last], -1.0) if len(victims.size) else np.full(len(needed), -1.0)
        worthy = (needed <= len(victims.size)) & (candidates.frequency[enter] > price)
        fits = int(np.argmin(worthy)) if not worthy.all() else len(worthy)
        return enter[:fits], int(needed[fits - 1]) if fits else 0

    def forget(self, keys: Keys, frequency: F32) -> None:
        self._sketch.raise_to(keys, frequency)

    def fade(self, tuples: int, hits: int, rows: int) -> int:
        self._tuples += tuples
        halvings = _DRIFT_HALVINGS if self._drifted(tuples, hits, rows) else 0
        if self._tuples >= self._window * max(rows, 64):
            halvings = max(halvings, 1)
        if halvings:
            self._tuples = 0
            self._sketch.halve(halvings)
        return halvings

    def _drifted(self, tuples: int, hits: int, rows: int) -> bool:
        """Whether the hit ratio has suddenly dropped."""
        self._recent_tuples += tuples
        self._recent_hits += hits
        if self._recent_tuples < max(1000, rows // 2):
            return False
        share = self._recent_hits / self._recent_tuples
        self._recent_tuples = self._recent_hits = 0
        drifted = share < _DRIFT * self._usual
        self._usual = share if drifted or not self._usual else 0.8 * self._usual + 0.2 * share
        return drifted

    def adapt(self, *, full: bool, evicted: int, refused: int, rows: int) -> None:
        """Does nothing: there is no threshold."""


class StaticPolicy(PaperPolicy):
    """Fills up once, most frequent first, and never changes: an upper bound when given the true frequencies."""

    def __init__(self) -> None:
        super().__init__(threshold=0)

    def choose(self, candidates: Entries, victims: Entries, free: Free) -> tuple[I64, int]:
        none = Entries(victims.frequency[:0], victims.size[:0])
        return super().choose(candidates, none, free)

    def adapt(self, *, full: bool, evicted: int, refused: int, rows: int) -> None:
        """Does nothing."""


def make_policy(name: str, *, threshold: int, window: float, rows: int) -> Policy:
    """The policy of that name, for a front stage of about `rows` rows."""
    if name == "paper":
        return PaperPolicy(threshold)
    if name == "tinylfu":
        return TinyLfuPolicy(CountMinSketch(width=CountMinSketch.width_for(rows)), window)
    if name == "static":
        return StaticPolicy()
    raise UnknownChoice("front-stage policy", name, POLICIES)


def policy_bytes_per_row(name: str) -> int:
    """Memory a policy needs for each row the front stage can hold."""
    return CountMinSketch.BYTES_PER_ROW if name == "tinylfu" else 0
