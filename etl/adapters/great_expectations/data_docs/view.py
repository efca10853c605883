"""Great Expectations' pages from templates that a process compiles once.

Great Expectations creates its views, and with them the template engine, for every page: without this cache, three dozen
templates are compiled for every batch, which takes longer than rendering them.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from great_expectations.render.view import DefaultJinjaIndexPageView, DefaultJinjaPageView
from jinja2.bccache import Bucket, BytecodeCache


class CompiledTemplates(BytecodeCache):
    """A cache of compiled templates by name, valid while their source is unchanged."""

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
