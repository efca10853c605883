"""How the plots of all benchmarks look, and how they become files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Spec = dict[str, Any]


def whole(legend_columns: int, label_limit: int | None = None, **spec: Any) -> Spec:
    """A Vega-Lite specification in our look."""
    legend = {"orient": "bottom", "title": None, "labelFontSize": 11, "columns": legend_columns}
    return {
        **spec,
        "background": "white",
        "padding": 12,
        "config": {
            "font": "sans-serif", "view": {"stroke": None},
            "axis": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "gridColor": "#e6e6e6"},
            "legend": legend if label_limit is None else legend | {"labelLimit": label_limit},
        },
    }  # fmt: skip


def write(spec: Spec, file: Path) -> Path:
    """Draw a specification."""
    import vl_convert  # starts a JavaScript engine: only when something is drawn

    drawn: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    file.write_text(drawn + "\n")
    return file
