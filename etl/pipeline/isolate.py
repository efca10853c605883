"""Run the tasks of a batch; when they crash repeatedly, find the input that they do not survive.

    try ─ lost ─ try ─ lost ─ try ─ lost ─▶ lines that kill by themselves ─▶ try without them ─▶ results
                                            (refused as `poison`)              │ lost
                                                                               ▼
                                            input that kills only as a whole: refused, or left for a later batch

A try is lost when its process died or its code raised a foreign exception; our own errors say by their kind whether to
retry. See ADR 62, 119, 125, 127.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from etl.adapters.losses import LossBook
from etl.model import Progress
from etl.pipeline.decision import Gathered
from etl.pipeline.poison.later import cut_off
from etl.pipeline.poison.lines import TRIES, LineSearch
from etl.pipeline.poison.together import TogetherSearch
from etl.pipeline.poison.trial import PlanTrial, T, Trial
from etl.pipeline.poison.tries import Tries
from etl.pipeline.tasks.plan import BatchPlan

if TYPE_CHECKING:
    from etl.pipeline.microbatch import Executor


def run(executor: Executor, book: LossBook, plan: BatchPlan, progress: Progress) -> Gathered | None:
    """Run the tasks of a pipeline's batch to success; returns their results. None: the batch is smaller now."""
    return survive(PlanTrial(executor, plan), book, progress)


def survive(trial: Trial[T], book: LossBook, progress: Progress) -> T | None:
    """Run the tasks of a batch to success, searching for poison if needed; returns their results.

    None: some of its input was cut off for a later batch, so it has to be planned anew.
    """
    return _Survival(Tries(trial, book, progress, book.read())).run()


@dataclass(slots=True)
class _Survival(Generic[T]):
    tries: Tries[T]

    def run(self) -> T | None:
        tries = self.tries
        if not tries.losses.later:
            results = self._results()
            if results is not None:
                return results
        cut_off(tries.trial, tries.book, tries.losses)
        return None

    def _results(self) -> T | None:
        tries = self.tries
        while tries.losses.lost < TRIES:
            results = tries.attempt()
            if results is not None:
                return results
            tries.progress(f"a try at batch {tries.trial.batch} was lost ({tries.cause})")
        tries.settled = tries.trial.settled()
        if tries.settled and tries.losses.suspects is None:  # lines that were refused before may be all that kills
            results = tries.attempt()
            if results is not None:
                return results
        if tries.losses.suspects != []:
            LineSearch(tries).run()
            if tries.losses.later:
                return None
        return TogetherSearch(tries).run()
