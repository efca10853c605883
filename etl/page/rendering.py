"""Rendering of pages: the run reports' layout and style, all text escaped, relative links."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette._utils import get_route_path

from etl.page.security import HEADERS
from etl.report import figures
from etl.report.correlations.page import size

_COMMAND = re.compile("`([^`]+)`")
STATES: dict[str, tuple[str, str]] = {
    "reading": ("Reading", "calm"),
    "decided": ("Decided", "calm"),
    "passed": ("Passed", "calm"),
    "held": ("Held", "bad"),
    "released": ("Released", "warn"),
    "rejected": ("Rejected", "warn"),
    "loaded": ("Loaded", "good"),
}
"""Label and tone of a batch's state. Unknown states are shown by name."""


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """An answer from a template."""
    text = (
        _environment()
        .get_template(template)
        .render(root=root(request), now=datetime.now(UTC), sections=request.app.state.sections, **values)
    )
    return HTMLResponse(text, status, HEADERS)


def root(request: Request) -> str:
    """The relative path from a page to the root, for links: `./`, `../`, …"""
    return "../" * (get_route_path(request.scope).count("/") - 1) or "./"


def state(name: str) -> tuple[str, str]:
    """A state's label and tone."""
    return STATES.get(name, (figures.visible(name), "calm"))


def count(value: float | None) -> str:
    """A number that may be missing."""
    return figures.NOTHING if value is None else figures.number(round(value))


def rate(value: float | None) -> str:
    """Events per second."""
    if value is None:
        return figures.NOTHING
    return figures.number(round(value)) if value >= 10 or value == 0 else f"{value:.2g}"


def age(since: datetime | None, now: datetime) -> str:
    """How long ago."""
    return figures.NOTHING if since is None else figures.duration(max(0.0, (now - since).total_seconds()))


def value(given: object) -> str:
    """A value of a row as text; NULL is not shown as `None`."""
    return "NULL" if given is None else str(given)


def sentence(text: str) -> str:
    """A text with a capital first letter."""
    return text[:1].upper() + text[1:]


def prose(text: str) -> Markup:
    """Our own text with commands in backquotes; everything is escaped."""
    safe = str(escape(figures.visible(sentence(text))))
    return Markup(_COMMAND.sub(r"<code>\1</code>", safe))  # noqa: S704 - escaped before


@cache
def _environment() -> Environment:
    made = Environment(
        loader=ChoiceLoader([PackageLoader("etl.page"), PackageLoader("etl.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "number": figures.number,
        "count": count,
        "rate": rate,
        "percent": figures.percent,
        "duration": figures.duration,
        "span": figures.span,
        "counted": figures.counted,
        "value": value,
        "moment": figures.moment,
        "visible": figures.visible,
        "words": figures.words,
        "size": size,
        "state": state,
        "sentence": sentence,
        "prose": prose,
    }
    made.globals |= {"age": age}
    return made
