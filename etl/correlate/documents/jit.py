"""The one way this package compiles a kernel: cached on disk, without the interpreter's lock, typed for its callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at first call; later processes load the machine code from the cache beside the module."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True)(function))
