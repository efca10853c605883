"""FPTreeJoin over a growing set of documents: each batch is joined with earlier ones, then with itself, then stored.

insert(batch) ──►  1. probe the stored trees  2. join the batch's own tree with itself  3. keep that tree
                      ┌────────┐ ┌───┐ ┌──┐
stored trees          │  large │ │   │ │  │ ◄── new            trees of similar size are merged, so there are few
                      └────────┘ └───┘ └──┘                    and every document is rebuilt O(log n) times (ADR 37)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from etl.correlate.documents.dictionary import U64
from etl.correlate.documents.joining.expand import Made, Side, make_pairs, nowhere_else
from etl.correlate.documents.joining.tree import FPTree
from etl.correlate.documents.model import Documents, Pairs, concat

UNBOUNDED = 2**62
_MERGE_RATIO = 2  # a stored tree at most this many times as large as the one behind it is merged with it


@dataclass(frozen=True, slots=True)
class Stored:
    """A tree with the ids and the lower partitions of its documents, both in the order of the tree."""

    tree: FPTree
    side: Side

    @staticmethod
    def of(documents: Documents, lower: U64) -> Stored:
        tree = FPTree.build(documents)
        return Stored(tree, Side(documents.ids, lower).take(tree.order))

    @property
    def lower(self) -> U64:
        """The lower partitions in the order of the documents."""
        lower = np.empty_like(self.side.lower)
        lower[self.tree.order] = self.side.lower
        return lower


@dataclass(slots=True)
class FPTreeJoin:
    """The stored documents. All of them use one dictionary."""

    stored: list[Stored] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(part.tree.documents) for part in self.stored)

    @property
    def nbytes(self) -> int:
        return sum(part.tree.nbytes for part in self.stored)

    def insert(self, documents: Documents, lower: U64 | None = None, at_most: int = UNBOUNDED) -> Made:
        """Join a batch with all earlier ones and with itself, and store it."""
        own = nowhere_else(len(documents)) if lower is None else lower
        made = [self.probe(documents, own, at_most)]
        fresh = Stored.of(documents, own)
        left = at_most - len(made[0].pairs)
        made.append(make_pairs(fresh.side, fresh.side, fresh.tree.self_join(), left))
        self._keep(fresh)
        return total(made)

    def probe(self, documents: Documents, lower: U64 | None = None, at_most: int = UNBOUNDED) -> Made:
        """The pairs of these documents with those stored, without storing them."""
        probing = Side(documents.ids, nowhere_else(len(documents)) if lower is None else lower)
        made: list[Made] = []
        for part in self.stored:
            runs = part.tree.probe(documents)
            made.append(make_pairs(part.side, probing, runs, at_most - sum(len(m.pairs) for m in made)))
        return total(made)

    def _keep(self, fresh: Stored) -> None:
        self.stored.append(fresh)
        while len(self.stored) > 1 and _size(self.stored[-2]) <= _MERGE_RATIO * _size(self.stored[-1]):
            last, before = self.stored.pop(), self.stored.pop()
            documents = concat([before.tree.documents, last.tree.documents])
            self.stored.append(Stored.of(documents, np.concatenate([before.lower, last.lower])))


def total(made: list[Made]) -> Made:
    """The sum of several results."""
    return Made(Pairs.concat([part.pairs for part in made]), sum(part.found for part in made))


def join(documents: Documents) -> Pairs:
    """All joinable pairs of some documents."""
    return FPTreeJoin().insert(documents).pairs


def _size(part: Stored) -> int:
    return len(part.tree.documents)
