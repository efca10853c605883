"""Reads pipeline files.

    NAME.toml ──tomllib──▶ values ──shape──▶ Document ──build──▶ Pipeline ──check──▶ Pipeline
                  │           │                 │                   │
                  └───────────┴── mistakes ─────┴───────────────────┴──▶ PipelineFileError: file, line, one sentence

A broken file does not affect the others. Importing this module is fast, as a scheduler does it every few seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from etl.contract import check
from etl.contract.errors import Mistake, PipelineFileError
from etl.contract.model import Pipeline
from etl.contract.parsing import shape
from etl.contract.parsing.build import Builder
from etl.contract.parsing.locate import line_of, lines_of
from etl.contract.parsing.toml import values_of

T = TypeVar("T")
_LARGEST = 1 << 20  # bytes of a file; a declaration has a few thousand
_NAME = re.compile(r"""^name\s*=\s*["']([^"']*)["']""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The pipelines of a folder, and the mistakes in its other files."""

    pipelines: tuple[Pipeline, ...]
    errors: tuple[PipelineFileError, ...]


def load(path: Path, home: Path) -> Pipeline:
    """The pipeline that a file declares. Raises `PipelineFileError` about its first mistake."""
    pipeline, errors = examine(path, home)
    if pipeline is None:
        raise errors[0]
    return pipeline


def load_all(folder: Path, home: Path) -> Loaded:
    """The pipelines of a folder, by file name. A conflict between two files is a mistake of the second."""
    pipelines: list[Pipeline] = []
    errors: list[PipelineFileError] = []
    for path in sorted(folder.glob("*.toml")):
        pipeline, wrong = examine(path, home)
        if pipeline is not None:
            wrong = conflicts(pipeline, pipelines)
        if pipeline is not None and not wrong:
            pipelines.append(pipeline)
        errors += wrong[:1]
    return Loaded(tuple(pipelines), tuple(errors))


def mistake_of(name: str, loaded: Loaded, folder: Path) -> PipelineFileError | None:
    """The mistakes of the pipeline of this name: of the file with this name, or that declares it."""
    found = (error for error in loaded.errors if name in (Path(error.file).stem, _name_in(folder / error.file)))
    return next(found, None)


def _name_in(path: Path) -> str | None:
    """The pipeline name in a file, even if the file has mistakes."""
    try:
        top, _, _ = text_of(path).partition("\n[")
    except PipelineFileError:
        return None
    found = _NAME.search(top)
    return None if found is None else found[1]


def examine(path: Path, home: Path) -> tuple[Pipeline | None, tuple[PipelineFileError, ...]]:
    """The pipeline of a file, or all its mistakes: causes before consequences."""

    def examined() -> tuple[Pipeline | None, tuple[PipelineFileError, ...]]:
        text = text_of(path)
        pipeline, mistakes = _examined(text, path, home)
        errors = located(path, text, mistakes)
        return (None, tuple(errors)) if errors else (pipeline, ())

    return guarded(path, examined)


def guarded(
    path: Path, examined: Callable[[], tuple[T | None, tuple[PipelineFileError, ...]]]
) -> tuple[T | None, tuple[PipelineFileError, ...]]:
    """What examining a file gives. Any error is a mistake of that file, so that the others can still be used."""
    try:
        return examined()
    except PipelineFileError as error:
        return None, (error,)
    except MemoryError:
        raise  # of the machine, not of the file
    except Exception as error:
        return None, (unexpected(path, error),)


def unexpected(path: Path, error: Exception) -> PipelineFileError:
    """The mistake of a file whose examination failed in a way that nobody has foreseen."""
    reason = " ".join(str(error).split())[:200]
    told = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    return PipelineFileError(path.name, 1, f"the file cannot be examined ({told}); take out what was changed last")


@lru_cache(maxsize=256)
def _examined(text: str, path: Path, home: Path) -> tuple[Pipeline | None, tuple[Mistake, ...]]:
    """Parse a file's text. Cached, as every step of a batch needs it; parsed again only when the text has changed."""
    pipeline, mistakes = _pipeline(values_of(text, path.name), path, home)
    return pipeline, tuple(mistakes)


def read(path: Path) -> tuple[str, dict[str, object]]:
    """The text of a file and its values. Raises `PipelineFileError`."""
    text = text_of(path)
    return text, values_of(text, path.name)


def text_of(path: Path) -> str:
    """The text of a file, without a byte order mark. Raises `PipelineFileError` when it is unreadable or not text."""
    try:
        if path.stat().st_size > _LARGEST:
            raise PipelineFileError(path.name, 1, f"the file has more than {_LARGEST:,} bytes")
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise PipelineFileError(path.name, 1, f"the file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise PipelineFileError(path.name, line, "the file is not UTF-8; save it as UTF-8") from None


def _pipeline(declared: dict[str, object], path: Path, home: Path) -> tuple[Pipeline | None, list[Mistake]]:
    document, mistakes = shape.document(declared)
    if document is None:
        return None, mistakes
    builder = Builder.of(document, home)
    pipeline = replace(builder.pipeline(document.name if document.name is not None else path.stem), file=path)
    if not builder.mistakes:
        builder.mistakes += check.mistakes(pipeline, builder.rule_paths)
    return pipeline, builder.mistakes


def conflicts(pipeline: Pipeline, others: Sequence[Pipeline]) -> tuple[PipelineFileError, ...]:
    """Conflicts of a pipeline with others: name, mart tables, landing folder."""
    if not others:
        return ()
    assert pipeline.file is not None, "pipelines that are read from files are compared"
    claims = [*_claims(pipeline, others)]
    return tuple(located(pipeline.file, pipeline.file.read_text("utf-8-sig"), claims)) if claims else ()


def located(path: Path, text: str, mistakes: Iterable[Mistake]) -> list[PipelineFileError]:
    """Mistakes with the line that each is on."""
    found = list(mistakes)
    lines = lines_of(text) if found else {}
    return [PipelineFileError(path.name, line_of(lines, one.path), one.sentence) for one in found]


def _claims(pipeline: Pipeline, others: Sequence[Pipeline]) -> Iterator[Mistake]:
    for other in others:
        whose = f"{other.file.name if other.file else other.name}"
        if other.name == pipeline.name:
            yield Mistake(
                ("name",), f"pipeline {pipeline.name!r} is declared by {whose} already; give one of them another name"
            )
        for table in {one.name for one in other.mart} & {one.name for one in pipeline.mart}:
            yield Mistake(
                ("mart", table), f"mart table {table!r} belongs to {whose} already; give one of them another name"
            )
        mine, theirs = pipeline.stream.source.landing, other.stream.source.landing
        if mine.is_relative_to(theirs) or theirs.is_relative_to(mine):
            yield Mistake(
                ("stream", "source", "landing"),
                f"landing {mine.name!r} is where {whose} reads already; use another folder",
            )
