"""Assemble the seven joins from their parts, and size them from one budget.

meshjoin   hybridjoin   inlj           a tactic alone
cmeshjoin  chybridjoin  cinlj          the same behind a front stage
auto                                   a front stage, and a tactic chosen per batch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from etl.enrich.errors import PortMissing, UnknownChoice
from etl.enrich.front_stage.policy import POLICIES, PolicyName
from etl.enrich.front_stage.port import FrontStagePort
from etl.enrich.front_stage.stage import FrontStage, FrontStageConfig
from etl.enrich.join import SemiStreamJoin
from etl.enrich.planning.auto import AutoTactic, Clock, prices
from etl.enrich.planning.calibrate import measure_units, profile_of
from etl.enrich.planning.cost import MasterProfile, UnitCosts
from etl.enrich.planning.feedback import Feedback
from etl.enrich.planning.sizing import FRONT_SHARE, Sizes, size_hybrid, size_inlj, size_mesh
from etl.enrich.ports import MasterIndex, MasterLookup, MasterReader, MasterScan
from etl.enrich.shedding import SheddingConfig
from etl.enrich.spec import JoinName, JoinSpec, TacticName
from etl.enrich.tactics.hybrid import HybridConfig, HybridJoin
from etl.enrich.tactics.inlj import IndexNestedLoop, InljConfig
from etl.enrich.tactics.mesh import MeshConfig, MeshJoin
from etl.enrich.tactics.tactic import Tactic

LOOKUP_FRONT_SHARE = 0.75
"""Share of the budget for the front stage of a lookup join; the rest is for the rows of one lookup."""

LOOKUP_TUPLES = 262_144
"""Most tuples per lookup when a whole partition is joined at once."""

_USUAL_TUPLES = 65_536

_WAYS: Mapping[TacticName, str] = {"inlj": "lookup", "hybridjoin": "index", "meshjoin": "scan"}


@dataclass(frozen=True, slots=True)
class Sources:
    """The ports of one master; None for those it lacks."""

    lookup: MasterLookup | None = None
    scan: MasterScan | None = None
    index: MasterIndex | None = None

    @classmethod
    def of(cls, reader: MasterReader) -> Sources:
        """The ports that a reader supports."""
        able = reader.capabilities
        return cls(reader if able.lookup else None, reader if able.scan else None, reader if able.index else None)

    def offers(self, tactic: TacticName) -> bool:
        return {"inlj": self.lookup, "hybridjoin": self.index, "meshjoin": self.scan}[tactic] is not None


@dataclass(frozen=True, slots=True)
class Options:
    """Tuning options. The defaults suit micro-batches."""

    policy: PolicyName = "tinylfu"
    threshold: int = 2
    window: float = 128.0
    negative_ttl_s: float = 60.0
    front_share: float = FRONT_SHARE  # of the budget, before MESHJOIN and HYBRIDJOIN
    front_elsewhere: bool = False  # the front stage is shared: its bytes are not in this budget
    lookup_tuples: int = 65_536  # at most, per lookup
    lookups: int | None = None  # queue elements that select pages at once; None: as many as the budget allows
    lookup_position: float = 1.0
    shedding_position: float = 0.15
    best_first: bool = False  # a bounded batch reads the most frequent keys first; else by position
    pages_per_step: int | None = None  # disk buffer of MESHJOIN; None: by the cost model
    staggered: bool = False  # MESHJOIN takes in some tuples at every step, as in the paper
    shedding: SheddingConfig | None = None
    units: UnitCosts | None = None  # known unit costs; None: measured if there is a clock
    feedback: Feedback | None = None  # feedback and unit costs of an earlier `auto`
    clock: Clock | None = None

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise UnknownChoice("front-stage policy", self.policy, POLICIES)
        if not 0.0 < self.front_share < 1.0:
            raise ValueError(f"front_share={self.front_share} is not a share between 0 and 1")


def assemble(
    spec: JoinSpec,
    sources: Sources,
    budget_bytes: int,
    options: Options,
    front_stage: FrontStagePort | None = None,
    profile: MasterProfile | None = None,
) -> SemiStreamJoin:
    """Build the join, all parts within `budget_bytes`. `front_stage`: an existing one to use."""
    names = _tactics(spec, sources)
    profile = profile or profile_of(sources.scan)
    if spec.tactic == "auto":
        options = replace(options, feedback=options.feedback or Feedback(_units(sources, options)))
    sizes = planned(spec, names, budget_bytes, profile, options)
    front_bytes = min(size.front_bytes for size in sizes.values())
    make = {tactic: _maker(tactic, sources, sizes[tactic], options) for tactic in names}
    if spec.tactic == "auto":
        tactic: Tactic = AutoTactic(make, sizes, profile, options.feedback or Feedback(), options.clock)
    else:
        tactic = make[names[0]]()
    if spec.front_stage and front_stage is None and not options.front_elsewhere:
        front_stage = FrontStage(
            FrontStageConfig(front_bytes, options.policy, options.threshold, options.window, options.negative_ttl_s)
        )
    return SemiStreamJoin(front_stage if spec.front_stage else None, tactic, options.shedding)


def planned(
    spec: JoinSpec,
    tactics: Sequence[TacticName],
    budget_bytes: int,
    profile: MasterProfile,
    options: Options | None = None,
) -> dict[TacticName, Sizes]:
    """The sizes of each of these tactics in this join."""
    options = options or Options()
    cached = spec.front_stage and not options.front_elsewhere

    def sized(share: float) -> dict[TacticName, Sizes]:
        chosen = replace(options, front_share=share)
        return {tactic: _size(tactic, budget_bytes, profile, chosen, cached=cached) for tactic in tactics}

    if spec.tactic != "auto":
        return sized(options.front_share)
    # One division of the budget has to serve every later choice: the one that suits the usual choice.
    sizes = sized(max(options.front_share, LOOKUP_FRONT_SHARE))
    past = options.feedback or Feedback(options.units or UnitCosts())
    usual = past.of(_USUAL_TUPLES).priced(prices(_USUAL_TUPLES, _USUAL_TUPLES, profile, sizes, past.units))
    return sizes if min(usual, key=lambda tactic: usual[tactic]) == "inlj" else sized(options.front_share)


def _tactics(spec: JoinSpec, sources: Sources) -> list[TacticName]:
    """The tactics that the join may use and these sources support."""
    offered = [tactic for tactic in spec.tactics if sources.offers(tactic)]
    if not offered:
        raise PortMissing(spec.name, " or ".join(_WAYS[tactic] for tactic in spec.tactics))
    return offered


def _size(tactic: TacticName, budget: int, profile: MasterProfile, options: Options, *, cached: bool) -> Sizes:
    if tactic == "inlj":
        return size_inlj(budget, profile, front=cached, most_tuples=options.lookup_tuples)
    if tactic == "hybridjoin":
        return size_hybrid(budget, profile, front=cached, share=options.front_share, lookups=options.lookups)
    return size_mesh(budget, profile, front=cached, share=options.front_share, pages=options.pages_per_step)


def _maker(tactic: TacticName, sources: Sources, sizes: Sizes, options: Options) -> Callable[[], Tactic]:
    def inlj() -> Tactic:
        assert sources.lookup is not None, "checked by name"
        config = InljConfig(sizes.lookup_tuples, best_first=options.best_first, position=options.shedding_position)
        return IndexNestedLoop(sources.lookup, config)

    def hybrid() -> Tactic:
        assert sources.index is not None, "checked by name"
        positions = options.lookup_position, options.shedding_position
        config = HybridConfig(sizes.capacity, sizes.lookups, *positions, options.best_first)
        return HybridJoin(sources.index, config)

    def mesh() -> Tactic:
        assert sources.scan is not None, "checked by name"
        config = MeshConfig(sizes.capacity, sizes.capacity, sizes.pages_per_step)
        if options.staggered:
            config = MeshConfig.staggered(sizes.capacity, sources.scan.page_count(), sizes.pages_per_step)
        return MeshJoin(sources.scan, config)

    return {"inlj": inlj, "hybridjoin": hybrid, "meshjoin": mesh}[tactic]


def _units(sources: Sources, options: Options) -> UnitCosts:
    """Unit costs of reading this master: given, measured if there is a clock, or the defaults."""
    if options.units is not None:
        return options.units
    if options.clock is None:
        return UnitCosts()
    return measure_units(UnitCosts(), options.clock, lookup=sources.lookup, scan=sources.scan, index=sources.index)


def build(
    join: JoinSpec | JoinName,
    *,
    budget_bytes: int,
    reader: MasterReader | None = None,
    lookup: MasterLookup | None = None,
    scan: MasterScan | None = None,
    index: MasterIndex | None = None,
    front_stage: FrontStagePort | None = None,
    profile: MasterProfile | None = None,
    options: Options | None = None,
    **turned: object,
) -> SemiStreamJoin:
    """`assemble` with its parts by keyword: `build("cinlj", reader=pages, budget_bytes=…, policy="paper")`.

    `reader` provides all ports it supports; `lookup`, `scan` and `index` provide single ones.
    """
    spec = join if isinstance(join, JoinSpec) else JoinSpec.named(join)
    sources = Sources(lookup, scan, index) if reader is None else Sources.of(reader)
    chosen = replace(options or Options(), **turned)  # type: ignore[arg-type]
    return assemble(spec, sources, budget_bytes, chosen, front_stage, profile)
