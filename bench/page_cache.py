"""The operating system's page cache, seen and steered: what of some files is in memory, dropped, or brought in.

    drop      forget the pages: first this process's mappings let go of them (MADV_DONTNEED), then the kernel
              (POSIX_FADV_DONTNEED) may; a page that any process has mapped would stay
    resident  one flag per 4 KiB page (mincore)
    warm      bring pages in and map them, as pages are that were read a moment ago

The mappings are found in /proc/self/maps, so a store need not be reopened: what it has verified stays verified.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

PAGE = 4096
_POPULATE_READ = 22  # MADV_POPULATE_READ, Linux 5.14
_LIBC = ctypes.CDLL(None, use_errno=True)
Flags = npt.NDArray[np.bool_]


class PageCache:
    """The cached pages of some files, numbered through all of them."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [path.resolve() for path in files]
        self._descriptors = [os.open(path, os.O_RDONLY) for path in self._files]
        sizes = [max(1, os.fstat(descriptor).st_size) for descriptor in self._descriptors]
        self._own = [mmap.mmap(d, size, prot=mmap.PROT_READ) for d, size in zip(self._descriptors, sizes, strict=True)]
        self._pages = [-(-size // PAGE) for size in sizes]

    @property
    def pages(self) -> int:
        return sum(self._pages)

    def address(self) -> int:
        """Where the first file begins in this process, in somebody else's mapping of it."""
        own = np.frombuffer(self._own[0], np.uint8).ctypes.data
        return next(low - begins for low, _, begins in self._mappings(0) if low != own)

    def close(self) -> None:
        for mapped, descriptor in zip(self._own, self._descriptors, strict=True):
            mapped.close()
            os.close(descriptor)

    def drop(self) -> int:
        """Forget all pages; how many stayed all the same, because somebody else has them mapped."""
        for number, descriptor in enumerate(self._descriptors):
            for address, length, _ in self._mappings(number):
                _madvise(address, length, mmap.MADV_DONTNEED)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return int(np.count_nonzero(self.resident()))

    def resident(self) -> Flags:
        """Which pages are in memory."""
        return np.concatenate([_in_memory(mapped, pages) for mapped, pages in zip(self._own, self._pages, strict=True)])

    def warm(self, wanted: Flags) -> None:
        """Bring these pages in, and no others."""
        start = 0
        for number, pages in enumerate(self._pages):
            for first, stop in _stretches(wanted[start : start + pages]):
                self._bring(number, first * PAGE, (stop - first) * PAGE)
            start += pages

    def _bring(self, number: int, offset: int, length: int) -> None:
        os.posix_fadvise(self._descriptors[number], 0, 0, os.POSIX_FADV_RANDOM)  # or the neighbours come along
        os.pread(self._descriptors[number], length, offset)
        for address, size, begins in self._mappings(number):
            low, high = max(offset, begins), min(offset + length, begins + size)
            if low < high:
                _madvise(address + low - begins, high - low, _POPULATE_READ)

    def _mappings(self, number: int) -> Iterator[tuple[int, int, int]]:
        """Address, length and offset in the file of every mapping of ours."""
        name = str(self._files[number])
        for line in Path("/proc/self/maps").read_text().splitlines():
            if line.endswith(name):
                ends, _, offset, *_ = line.split()
                low, high = (int(part, 16) for part in ends.split("-"))
                yield low, high - low, int(offset, 16)


def bytes_read() -> int:
    """What this process has had fetched from storage so far; the page cache does not count."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("read_bytes")).split()[1])


def _madvise(address: int, length: int, advice: int) -> None:
    _LIBC.madvise(ctypes.c_void_p(address), ctypes.c_size_t(length), advice)


def _in_memory(mapped: mmap.mmap, pages: int) -> Flags:
    flags = np.zeros(pages, np.uint8)
    view = np.frombuffer(mapped, np.uint8)
    address, out = ctypes.c_void_p(view.ctypes.data), flags.ctypes.data_as(ctypes.c_void_p)
    if _LIBC.mincore(address, ctypes.c_size_t(len(mapped)), out):
        raise OSError(ctypes.get_errno(), "mincore does not work on this file system")
    del view  # a mapping with a view on it cannot be closed
    return (flags & 1).astype(np.bool_)


def _stretches(wanted: Flags) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(np.int8), [0]])))
    return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
