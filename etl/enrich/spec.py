"""The kind of a join: a tactic, with or without a front stage.

    name          tactic        front stage        the literature's name
    inlj          inlj          no                 index nested loop join
    cinlj         inlj          yes                CACHEJOIN over index nested loop
    hybridjoin    hybridjoin    no                 HYBRIDJOIN
    chybridjoin   hybridjoin    yes
    meshjoin      meshjoin      no                 MESHJOIN
    cmeshjoin     meshjoin      yes
    auto          auto          yes                the tactic is chosen batch by batch, by cost

Settings and commands give a name; `JoinSpec.named` turns it into a value once, at the edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from etl.enrich.errors import UnknownChoice

TacticName = Literal["inlj", "hybridjoin", "meshjoin"]
TACTICS: tuple[TacticName, ...] = ("inlj", "hybridjoin", "meshjoin")
JoinName = Literal["inlj", "cinlj", "hybridjoin", "chybridjoin", "meshjoin", "cmeshjoin", "auto"]


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """One kind of join: its tactic, and whether it has a front stage."""

    tactic: TacticName | Literal["auto"]
    front_stage: bool

    @classmethod
    def named(cls, name: str) -> JoinSpec:
        """The join of that name."""
        for known, spec in JOINS.items():
            if known == name:
                return spec
        raise UnknownChoice("join", name, tuple(JOINS))

    @property
    def name(self) -> JoinName:
        """The name in settings."""
        return next(name for name, spec in JOINS.items() if spec == self)

    @property
    def tactics(self) -> tuple[TacticName, ...]:
        """The tactics it may use: one, or all of them for `auto`."""
        return TACTICS if self.tactic == "auto" else (self.tactic,)


JOINS: Mapping[JoinName, JoinSpec] = {
    "inlj": JoinSpec("inlj", front_stage=False),
    "cinlj": JoinSpec("inlj", front_stage=True),
    "hybridjoin": JoinSpec("hybridjoin", front_stage=False),
    "chybridjoin": JoinSpec("hybridjoin", front_stage=True),
    "meshjoin": JoinSpec("meshjoin", front_stage=False),
    "cmeshjoin": JoinSpec("meshjoin", front_stage=True),
    "auto": JoinSpec("auto", front_stage=True),
}
