"""Rendering of templates: autoescape, undefined names are errors, uniform figures."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from etl.report import figures
from etl.report.model import Outcome

OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "loaded": ("Loaded", "good"),
    "empty": ("No new events", "calm"),
    "held": ("Held", "warn"),
    "failed": ("Failed", "bad"),
}
"""Label and tone of each outcome."""


def fill(template: str, **values: Any) -> str:
    """The text of a template with these values."""
    return _environment().get_template(template).render(outcomes=OUTCOMES, **values)


@cache
def _environment() -> Environment:
    """The environment, cached with its compiled templates: compiling takes as long as rendering."""
    environment = Environment(
        loader=PackageLoader("etl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": figures.number,
        "percent": figures.percent,
        "duration": figures.duration,
        "moment": figures.moment,
        "visible": figures.visible,
        "words": figures.words,
    }
    return environment
