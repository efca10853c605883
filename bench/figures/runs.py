"""The runs most figures consist of: a named join with a share of R as its memory, in its steady state."""

from __future__ import annotations

from dataclasses import dataclass

from bench.figures.measure import Measured, Run, TimedMaster
from bench.figures.workload import ROW_BYTES, FirstPages, Master, Masters, Stream, zipf
from etl.enrich.build import build
from etl.enrich.front_stage.stage import FrontStage, FrontStageConfig
from etl.enrich.join import SemiStreamJoin
from etl.enrich.planning.cost import MasterProfile
from etl.enrich.planning.sizing import FRONT_SHARE

FOUR = ("meshjoin", "cmeshjoin", "hybridjoin", "chybridjoin")
WARM_TURNS, TURNS = 3.0, 2.0  # a fresh queue swings for a while: tuples that came together leave together
_WARM_BATCH = 65_536


@dataclass(frozen=True, slots=True)
class Setting:
    """What all figures share: how large R is, and where masters are."""

    rows: int
    masters: Masters
    warm_turns: float = WARM_TURNS
    turns: float = TURNS
    tuples_per_front_row: int = 30  # at least, of warm-up
    least_steps: int = 500  # of a run under overload, where a turn is soon over
    rows_per_page: int | None = None

    @property
    def r_bytes(self) -> int:
        return self.rows * ROW_BYTES

    @property
    def page_rows(self) -> int:
        """The store's own 1,024 from a million rows on; less below, so that 1 % of R still holds ten pages."""
        return self.rows_per_page or 64 * max(1, min(16, round(self.rows / 64_000)))

    def master(self, rows: int | None = None) -> Master:
        """R, or its first rows."""
        whole = self.masters.rows(self.rows, page_rows=self.page_rows)
        return whole if rows is None or rows >= self.rows else FirstPages(whole, -(-rows // self.page_rows))

    def profile(self, master: Master) -> MasterProfile:
        return MasterProfile(master.page_count(), self.page_rows, ROW_BYTES)


def join(name: str, master: Master, shape: MasterProfile, budget: int, **turned: object) -> SemiStreamJoin:
    """As the paper runs them: MESHJOIN takes tuples in at every step, one queue element chooses a page."""
    paper: dict[str, object] = {"staggered": True, "lookups": 1}
    return build(name, budget_bytes=budget, lookup=master, scan=master, index=master, profile=shape, **(paper | turned))  # type: ignore[arg-type]


_kept: dict[tuple[object, ...], Measured] = {}  # several figures show the same run


def steady(
    setting: Setting,
    name: str,
    *,
    memory: float | None = None,
    budget: int | None = None,
    rows: int | None = None,
    exponent: float = 1.0,
    **turned: object,
) -> Measured:
    """A join of R (or its first `rows`) with a Zipf stream, memory as a share of R or in bytes."""
    spent = int((memory or 0.1) * setting.r_bytes) if budget is None else budget
    known = (setting.rows, id(setting.masters), name, spent, rows or setting.rows, exponent, *sorted(turned.items()))
    if known not in _kept:
        master = TimedMaster(setting.master(rows))
        made = join(name, master, setting.profile(master), spent, **turned)
        _kept[known] = warmed(setting, Run(made, zipf(rows or setting.rows, exponent), master))
    return _kept[known]


def warmed(setting: Setting, run: Run) -> Measured:
    """Warm-up apart, then the measurement. A large front stage needs more tuples to know its keys."""
    run.turns(setting.warm_turns)
    front = run.join.front_stage
    run.turns(0, least_tuples=0 if front is None else setting.tuples_per_front_row * len(front))
    run.forget()
    run.turns(setting.turns)
    return run.measured()


def warm_front(master: Master, budget: int, stream: Stream, tuples: int, share: float = FRONT_SHARE) -> FrontStage:
    """A front stage that has seen so many tuples, in batches: what one lookup at a time would learn in hours."""
    front = FrontStage(FrontStageConfig(int(budget * share)))
    learner = build("cinlj", budget_bytes=budget, lookup=master, front_stage=front)
    for _ in range(-(-tuples // _WARM_BATCH)):
        learner.offer(stream.take(_WARM_BATCH))
        while learner.pending:
            learner.step()
    return front
