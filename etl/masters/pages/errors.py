"""Errors of a store of master pages: every message names the damaged part and the remedy."""

from __future__ import annotations

from etl.errors import TerminalError, TransientError


class _Named(TerminalError):
    """An error whose `args` fill its message. They survive pickling."""

    sentence = ""

    def __init__(self, *parts: object) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.sentence.format(*self.args)


class PageDamaged(_Named):
    """(store, run, page): the bytes of a page are not those that were published."""

    sentence = "master {0!r}: page {2} of run {1} has a wrong checksum; publish the master again, and check the disk"


class RunDamaged(_Named):
    """(store, run, what): a run is damaged as a whole."""

    sentence = "master {0!r}: run {1} is damaged ({2}); publish the master again, and check the disk"


class RunTruncated(_Named):
    """(store, file, bytes found, bytes published): a file does not have the published size."""

    sentence = "master {0!r}: {1} has {2} bytes instead of {3}; publish the master again, and check the disk"


class RunMissing(_Named):
    """(store, file): a file that a manifest names is missing."""

    sentence = "master {0!r}: {1} is missing; restore it, or publish the master again"


class ManifestDamaged(_Named):
    """(store, file, what): a manifest is not what was written."""

    sentence = "master {0!r}: manifest {1} is damaged ({2}); remove that file to fall back to the version before it"


class FormatTooNew(_Named):
    """(store, file, format found, newest format known): written by a later Frontstage."""

    sentence = (
        "master {0!r}: {1} has format {2}, this Frontstage reads formats up to {3}; upgrade it, "
        "or publish to another folder"
    )


class NothingPublished(_Named):
    """(store): there is no version yet."""

    sentence = "master {0!r} has never been published; run `frontstage master publish`"


class VersionGone(_Named):
    """(store, version): the version never existed, or has been collected."""

    sentence = "master {0!r} has no version {1} any more; pin a version before using it, or use the current one"


class KeysOutOfOrder(_Named):
    """(store, key, previous key): rows that should be sorted are not."""

    sentence = (
        "master {0!r}: key {1} comes after {2}, so the rows are not sorted by key; order them "
        '(text by bytes, COLLATE "C"), or publish them as unsorted'
    )


class ColumnMismatch(_Named):
    """(store, column, given, expected): rows do not have the columns of the store."""

    sentence = "master {0!r}: column {1!r} is {2}, expected {3}; correct the source, or publish the master again"


class ColumnUnsupported(_Named):
    """(store, column, type): pages hold flat columns only."""

    sentence = "master {0!r}: column {1!r} of type {2} cannot be kept in pages; cast it to a flat type, or leave it out"


class ContradictoryChange(_Named):
    """(store, key): one set of changes both writes and deletes a key."""

    sentence = "master {0!r}: key {1} is both written and deleted in one set of changes; decide which in the source"


class RepublishNeeded(_Named):
    """(table, why): the changes since the last version are no longer known, so the whole table has to be read."""

    sentence = "changes of master table {0} cannot be followed: {1}; run `frontstage master publish`"


class CountMismatch(_Named):
    """(store, what, found, expected): the counts of a new run do not match, so it is not published."""

    sentence = "master {0!r}: {1} is {2}, expected {3}; nothing was published, the version before stays in force"


class PositionMismatch(TransientError):
    """Changes were read from a position that is not the store's current one."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return f"master {self.store!r} was refreshed by somebody else meanwhile; read the changes again"


class StoreBusy(TransientError):
    """Another publisher is active."""

    def __init__(self, store: str, waited_s: float) -> None:
        super().__init__(store, waited_s)
        self.store, self.waited_s = store, waited_s

    def __str__(self) -> str:
        return f"master {self.store!r} is being written by another process (waited {self.waited_s:g} s); try again"


DAMAGE = (PageDamaged, RunDamaged, RunTruncated, RunMissing, ManifestDamaged, VersionGone)
"""Errors that are repaired by publishing the master again."""
