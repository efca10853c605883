"""Great Expectations' pages from templates that a process compiles once.

Great Expectations makes its views anew for every page it builds, and with them the template engine: without this, three
dozen templates are parsed and compiled for every batch, which took longer than filling them.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from great_expectations.render.view import DefaultJinjaIndexPageView, DefaultJinjaPageView
from jinja2.bccache import Bucket, BytecodeCache


class CompiledTemplates(BytecodeCache):
    """The code of templates by name, good for as long as their text is the same."""

    def __init__(self) -> None:
        self._code: dict[str, tuple[str, CodeType | None]] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        checksum, code = self._code.get(bucket.key, ("", None))
        if checksum == bucket.checksum:
            bucket.code = code

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key] = bucket.checksum, bucket.code


_COMPILED = CompiledTemplates()


class ResultPages(DefaultJinjaPageView):  # type: ignore[misc]  # Great Expectations has no types
    """The page of one batch's results."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.env.bytecode_cache = _COMPILED


class IndexPage(DefaultJinjaIndexPageView):  # type: ignore[misc]
    """The first page."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.env.bytecode_cache = _COMPILED
