"""One way to compile a kernel: numba, cached on disk, without the interpreter lock.

Kernels are loops over arrays that others own. They allocate nothing (`allocating_kernel` does) and check no bounds:
every index is guarded by the kernel itself. The cache lies beside the module, so that only the first process after a
change compiles.

numba's cache detects a change of a kernel's own file, but not of a kernel that it calls in another file. So the cache
key of a kernel includes a fingerprint of all files whose kernels its module uses.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

_OPTIONS: Final[dict[str, Any]] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    # No reference counts: twice as fast where small functions are called per byte. numba refuses what would allocate.
    "_nrt": False,
}
_BUILD: Final = hashlib.sha256(repr(_OPTIONS).encode())


def kernel(function: Function) -> Function:
    """The compiled function; types are taken from the first call."""
    function.__qualname__ += "_" + fingerprint(function.__module__)
    return cast(Function, numba.njit(**_OPTIONS)(function))


def inlined_kernel(function: Function) -> Function:
    """The same for the body of another kernel's loop, in its module: a call would pass every array field by field."""
    return cast(Function, numba.njit(inline="always", **_OPTIONS)(function))


def allocating_kernel(function: Function) -> Function:
    """The same for a kernel that makes arrays of its own."""
    function.__qualname__ += "_" + fingerprint(function.__module__)
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def fingerprint(module: str) -> str:
    """A hash of the module's file and of every file whose kernels it uses, directly or not."""
    digest = _BUILD.copy()
    for name in sorted(_reach(module, set())):
        digest.update(Path(str(sys.modules[name].__file__)).read_bytes())
    return digest.hexdigest()[:8]


def _reach(module: str, seen: set[str]) -> set[str]:
    """The names of the modules that are linked to this one by kernels it imported."""
    seen.add(module)
    for value in list(vars(sys.modules[module]).values()):
        if isinstance(value, numba.core.dispatcher.Dispatcher) and value.py_func.__module__ not in seen:
            _reach(value.py_func.__module__, seen)
    return seen
