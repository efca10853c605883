"""Errors in the declaration of a multi-way join. Messages name the place."""

from __future__ import annotations

from collections.abc import Iterable

from etl.errors import TerminalError


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


class StreamWithoutSite(TerminalError):
    """A stream names a site that is not declared."""

    def __init__(self, stream: str, site: str, sites: tuple[str, ...]) -> None:
        super().__init__(stream, site, sites)
        self.stream, self.site, self.sites = stream, site, sites

    def __str__(self) -> str:
        given = f"names site {self.site!r}, which is not declared" if self.site else "names no site"
        return f"stream {self.stream!r} {given}; choose among {_listed(self.sites)}"


class RootNotReachable(TerminalError):
    """The storage root of a site cannot be read and written."""

    def __init__(self, site: str, root: str, reason: str) -> None:
        super().__init__(site, root, reason)
        self.site, self.root, self.reason = site, root, reason

    def __str__(self) -> str:
        return (
            f"the root {self.root!r} of site {self.site!r} is not reachable ({self.reason}); create or mount it first"
        )


class JoinNotConnected(TerminalError):
    """Some streams have no equality that leads to the others."""

    def __init__(self, query: str, apart: tuple[str, ...]) -> None:
        super().__init__(query, apart)
        self.query, self.apart = query, apart

    def __str__(self) -> str:
        return (
            f"correlation {self.query!r} does not connect {_listed(self.apart)} with its first stream; "
            "add an equality for each of them"
        )


class WindowNotPositive(TerminalError):
    """A window of no time or of no tuples."""

    def __init__(self, stream: str, window: str) -> None:
        super().__init__(stream, window)
        self.stream, self.window = stream, window

    def __str__(self) -> str:
        return f"the window of stream {self.stream!r} is {self.window}; it must be longer than nothing"


class TypesDoNotCompare(TerminalError):
    """An equality or a filter between values of different kinds."""

    def __init__(self, left: str, left_type: str, right: str, right_type: str) -> None:
        super().__init__(left, left_type, right, right_type)
        self.left, self.left_type, self.right, self.right_type = left, left_type, right, right_type

    def __str__(self) -> str:
        return (
            f"{self.left} ({self.left_type}) cannot be compared with {self.right} ({self.right_type}); "
            "both must be whole numbers, both text, or of one and the same type"
        )


class UnknownName(TerminalError):
    """A stream or column that the declaration does not have."""

    def __init__(self, what: str, name: str, known: tuple[str, ...]) -> None:
        super().__init__(what, name, known)
        self.what, self.name, self.known = what, name, known

    def __str__(self) -> str:
        return f"there is no {self.what} {self.name!r}; choose among {_listed(self.known)}"


class DeclaredTwice(TerminalError):
    """Two streams or sites of one name."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what, name)
        self.what, self.name = what, name

    def __str__(self) -> str:
        return f"{self.what} {self.name!r} is declared twice; every {self.what} needs a name of its own"


class TooManyStreams(TerminalError):
    """The exhaustive search was asked for more streams than it can enumerate."""

    def __init__(self, streams: int, most: int) -> None:
        super().__init__(streams, most)
        self.streams, self.most = streams, most

    def __str__(self) -> str:
        return f"the optimum over {self.streams} streams would take too long; at most {self.most} are allowed"


class PartitionsNotPositive(TerminalError):
    """A partitioning into no partitions."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.partitions = partitions

    def __str__(self) -> str:
        return f"partitions={self.partitions} is not positive; one partition means no partitioning"
