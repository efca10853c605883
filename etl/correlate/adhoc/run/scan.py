"""The shared scan of a stream for all queries that read it: columns to keep, and all selections.

A bucket is located once: each value's cell among all queries' constants, and from the cells that occur, the queries
that can match at all. Groups of queries then compute only their own bits, without queries that cannot match.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from etl.columnar import bitsets
from etl.columnar.bitsets import I32, U64
from etl.correlate.adhoc.query.model import Stream
from etl.correlate.adhoc.query.selections import Selections
from etl.correlate.adhoc.run.components import Running
from etl.correlate.adhoc.run.joins.bucket import Bucket, When


@dataclass(frozen=True, slots=True)
class Scan:
    """The combined needs of one stream's queries."""

    readers: tuple[Running, ...]  # by their bit's number, as the selections' bits are
    columns: list[str]
    window: int
    selections: Selections
    position: Mapping[int, int]  # a reader's number to its bit in the selections

    @staticmethod
    def of(stream: Stream, readers: list[Running]) -> Scan:
        used = set().union(*(each.query.columns_used(stream.name) for each in readers))
        return Scan(
            tuple(readers),
            [name for name in stream.columns if name in used],
            max(each.query.window for each in readers),
            Selections(stream.columns, [each.query.selections.get(stream.name) for each in readers]),
            {each.number: at for at, each in enumerate(readers)},
        )

    def take_over(self, located: Located, bucket: When) -> Located | None:
        """Reuse cells from before a change of queries, if they cover all queries that see the bucket."""
        before = {each.identity for each in located.scan.readers}
        stay = bitsets.mask_of(each.number for each in self.readers if each.identity in before)
        if any(each.created <= bucket.batch and each.identity not in before for each in self.readers):
            return None
        return replace(located, active=located.active & stay)

    def locate(self, bucket: Bucket) -> Located:
        cells = self.selections.locate(bucket.table)
        possible = bitsets.positions_of(self.selections.active(cells, len(bucket)))
        seeing = (self.readers[at] for at in possible)
        return Located(
            self, cells, bitsets.mask_of(each.number for each in seeing if each.created <= bucket.when.batch)
        )


@dataclass(frozen=True, slots=True)
class Located:
    """A bucket's cells, and the numbers of the queries that may select some of its tuples."""

    scan: Scan
    cells: Mapping[str, I32]
    active: int

    def evaluate(self, rows: int, wanted: int) -> U64:
        """The query sets of all rows, as bits of the queries in `wanted`."""
        bits = bitsets.mask_of(self.scan.position[number] for number in bitsets.positions_of(wanted))
        return self.scan.selections.evaluate(self.cells, rows, bits)
