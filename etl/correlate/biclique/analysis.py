"""The cost model of section 4: memory, scaling and bandwidth, with which counters are compared.

m, n     units of the left and right stream (rows and columns of the matrix)
d, e     their subgroups                       chi  bytes of a tuple
count    tuples stored                         rate tuples per second
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stream:
    chi: float
    count: float = 0.0
    rate: float = 0.0

    @property
    def stored_bytes(self) -> float:
        return self.chi * self.count

    @property
    def bandwidth(self) -> float:
        return self.chi * self.rate


def biclique_memory(left: Stream, right: Stream) -> float:
    """Equation 1."""
    return left.stored_bytes + right.stored_bytes


def matrix_memory(left: Stream, right: Stream, m: int, n: int) -> float:
    """Equation 2: every tuple lies in all units of its row or column."""
    return n * left.stored_bytes + m * right.stored_bytes


def matrix_gain_left(right: Stream, n: int, capacity: float) -> float:
    """Equation 3: the share of a new row's memory that is left after copying what it must hold of the right stream."""
    return 1 - right.stored_bytes / n / capacity


def biclique_bandwidth(left: Stream, right: Stream, m: int, n: int, d: int = 1, e: int = 1) -> float:
    """Equation 5."""
    return (n / e + 1) * left.bandwidth + (m / d + 1) * right.bandwidth


def matrix_bandwidth(left: Stream, right: Stream, m: int, n: int) -> float:
    """Equation 6."""
    return n * left.bandwidth + m * right.bandwidth


def scaling_delta(tau: float, target: float, units: int) -> float:
    """Equation 7."""
    return (tau / target - 1) * units
