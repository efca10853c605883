"""The interface between a join and its front stage.

`FrontStage` owns its rows and learns; `SharedFrontStage` reads rows that many workers map.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from etl.columnar.keys import I64, Keys
from etl.enrich.front_stage.stage import FrontStageCounts


class FrontStagePort(Protocol):
    """Probed before the tactic; learns from the rows that the tactic found."""

    counts: FrontStageCounts

    @property
    def nbytes(self) -> int: ...

    @property
    def threshold(self) -> int: ...

    def __len__(self) -> int: ...

    def probe(self, keys: Keys, now: float | None = None) -> I64: ...

    def record(self, hits: I64, tuples: int) -> None: ...

    def answers(self, hits: I64) -> tuple[pa.Table, I64]: ...

    def learn(self, rows: pa.Table, frequency: I64) -> None: ...

    def learn_absent(self, keys: Keys, now: float | None) -> None: ...
