"""Give memory back that a round of maintenance took and freed: allocators of a resident process keep it (ADR 136)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import SparkSession


@contextmanager
def given_back(spark: SparkSession) -> Iterator[None]:
    """Some rare, large work: once it is done, neither the JVM nor this process holds what it took."""
    yield
    if (jvm := spark._jvm) is not None:
        jvm.System.gc()  # also frees what is outside of the heap and belongs to objects that are gone
    release_unused()


def release_unused() -> None:
    """Return free memory of Arrow's pool and of the C library to the system."""
    pa.default_memory_pool().release_unused()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # GNU's has it, others give back by themselves
        library.malloc_trim(0)
