"""Where Great Expectations stores its pages: a folder in which nothing refers to the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from great_expectations.data_context.store import TupleFilesystemStoreBackend

from etl.adapters.great_expectations.data_docs.pages import offline


class OfflinePages(TupleFilesystemStoreBackend):  # type: ignore[misc]  # Great Expectations has no types
    """A folder of pages that need no network."""

    def _set(self, key: Any, value: str | bytes, **options: Any) -> Any:
        """Store a page as one that needs no network; of the files beside pages, only those that are not there yet."""
        where = Path(self.full_base_directory, self._convert_key_to_filepath(key))
        if isinstance(value, bytes) and where.exists() and where.stat().st_size == len(value):
            return str(where)
        if isinstance(value, str) and where.suffix == ".html":
            depth = len(where.relative_to(self.full_base_directory).parts) - 1
            value = offline(value, "../" * depth)
        return super()._set(key, value, **options)
