"""One row per slice: the bytes of a landed file, or offsets of a topic, that a batch reads; the file's location."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from etl.adapters import postgres
from etl.adapters.kafka.offsets import Position, partition_of
from etl.adapters.landing import Consumed, LandedFile, Slice
from etl.adapters.postgres.statements import Statements


class Inputs(Statements):
    """Statements about the input of batches, and about the archive."""

    def slices(self, batch: int) -> tuple[Slice, ...]:
        """The slices of a batch."""
        query = "select * from etl.input_slice where pipeline = %(pipeline)s and batch = %(batch)s order by ordinal"
        return tuple(_slice(row) for row in self._all(query, {"batch": batch}))

    def all_slices(self) -> list[tuple[int, Slice]]:
        """The slices of every batch in the ledger, in the order of reading, with the batch."""
        query = "select * from etl.input_slice where pipeline = %(pipeline)s order by batch, ordinal"
        return [(row["batch"], _slice(row)) for row in self._all(query)]

    def _insert_slices(self, batch: int, slices: Sequence[Slice]) -> None:
        rows = [
            (self.pipeline, batch, one.ordinal, one.file.name, one.file.size, one.file.modified_ns, one.file.inode,
             one.first, one.last)
            for one in slices
        ]  # fmt: skip
        self._insert(postgres.statement("input_slices"), rows)

    def _record_slices(self, batch: int, slices: Sequence[tuple[int, str, int]]) -> None:
        self._insert(postgres.statement("input_read"), [(self.pipeline, batch, *one) for one in slices])

    def exclude(self, batch: int, ordinals: Iterable[int]) -> None:
        """Remove slices from an undecided batch: their files changed while they were read."""
        self._execute(
            "delete from etl.input_slice where pipeline = %(pipeline)s and batch = %(batch)s "
            "and ordinal = any(%(ordinals)s)",
            {"batch": batch, "ordinals": list(ordinals)},
        )

    def shorten(self, batch: int, ends: Mapping[int, int]) -> None:
        """Let slices of an undecided batch end earlier: a later batch reads the rest."""
        for ordinal, last in ends.items():
            self._execute(
                "update etl.input_slice set last_byte = least(last_byte, %(last)s) "
                "where pipeline = %(pipeline)s and batch = %(batch)s and ordinal = %(ordinal)s and digest is null",
                {"batch": batch, "ordinal": ordinal, "last": last},
            )

    def consumed(self, names: Sequence[bytes]) -> dict[bytes, Consumed]:
        """What batches have consumed of files with these names that are still in the landing folder."""
        rows = self._all(postgres.statement("input_consumed"), {"names": list(names)})
        return {bytes(row["name"]): _consumed(row) for row in rows}

    def positions(self, topic: str) -> dict[int, Position]:
        """By partition of a topic, where the last batch that reads it ends."""
        rows = self._all(postgres.statement("input_positions"), {"prefix": f"{topic}/".encode()})
        return {partition_of(bytes(row["name"])): Position(int(row["inode"]), row["last_byte"]) for row in rows}

    def put_away(self, names: Iterable[bytes]) -> None:
        """Record that files have left the landing folder."""
        self._execute(
            "update etl.input_slice set put_away = true where pipeline = %(pipeline)s and not put_away "
            "and name = any(%(names)s)",
            {"names": list(names)},
        )

    def archived(self, inodes: Sequence[int]) -> list[tuple[bytes, Consumed]]:
        """What batches have consumed of files with these inodes, by landed name."""
        rows = self._all(postgres.statement("input_archived"), {"inodes": list(inodes)})
        return [(bytes(row["name"]), _consumed({"size": 0, "modified_ns": 0, **row})) for row in rows]

    def land_again(self, name: bytes, inode: int, landed_as: bytes) -> None:
        """Record, in advance, that a file moves back from the archive to the landing folder."""
        self._execute(
            "update etl.input_slice set put_away = false, name = %(landed_as)s "
            "where pipeline = %(pipeline)s and name = %(name)s and inode = %(inode)s",
            {"name": name, "inode": inode, "landed_as": landed_as},
        )

    def archive_removed(self) -> dict[str, int]:
        """By day, the number of lines in removed archived files."""
        rows = self._all("select day, lines from etl.archive_removed where pipeline = %(pipeline)s")
        return {row["day"]: int(row["lines"]) for row in rows}

    def remove_archive(self, day: str, lines: int) -> None:
        """Record, in advance, the number of lines in a day's folder that will be removed."""
        self._execute(
            "insert into etl.archive_removed values (%(pipeline)s, %(day)s, %(lines)s) on conflict do nothing",
            {"day": day, "lines": lines},
        )


def _slice(row: Mapping[str, Any]) -> Slice:
    file = LandedFile(bytes(row["name"]), row["size"], row["modified_ns"], int(row["inode"]))
    return Slice(row["ordinal"], file, row["first_byte"], row["last_byte"])


def _consumed(row: Mapping[str, Any]) -> Consumed:
    parts = tuple((int(first), int(last), digest) for first, last, digest in row["parts"])
    return Consumed(int(row["inode"]), row["size"], row["modified_ns"], parts)
