"""Whatever a pipeline file holds, reading it gives a pipeline or sentences with lines, never a stack trace."""

from __future__ import annotations

import copy
import json
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from etl.contract.dump import as_json
from etl.contract.evolve import compatible
from etl.contract.load import examine

PIPELINES = Path(__file__).resolve().parents[3] / "warehouse" / "pipelines"
TEXTS = {path.name: path.read_text() for path in sorted(PIPELINES.glob("*.toml"))}

_WORDS = [
    "", "int", "string", "decimal(3,9)", "timestamp", "now + 1d", "2000-01-01", "[", "sum(x)", "count(*)", "a b",
    "select 1",
    "1 / 0", "customer.name", "postgres:a.b", "delta:", "../x", "%Y", "order_id", "batch", "é", "x" * 70, "`",
    "''", "1e400", "9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+14:00", f"{'9' * 4_400}d", f"now + {'9' * 4_400}d",
    f"*/{'9' * 4_400} * * * *", " or ".join(["quantity = 1"] * 250), "+".join(["quantity"] * 600),
    "(" * 50 + "quantity" + ")" * 50, f"sum({'(' * 50}quantity{')' * 50})",
]  # fmt: skip


@dataclass(frozen=True)
class Literally:
    """A value as the text that it is in TOML."""

    text: str


_LITERALS = [
    "inf", "nan", "-inf", "1e400", f"1e{'9' * 30}", f"0x{'f' * 4_400}", "9" * 4_400, "10:00:00",
    "9999-12-31T23:59:59-05:00", "[" * 100 + "]" * 100, "[" * 2_000 + "]" * 2_000, "{a=" * 50 + "1" + "}" * 50,
]  # fmt: skip
_VALUES = st.one_of(
    st.sampled_from(_WORDS),
    st.sampled_from([Literally(one) for one in _LITERALS]),
    st.integers(-(2**70), 2**70),
    st.sampled_from([True, False, 0.5, -1e300, [], ["a"], [1, 2], {}, {"type": "int"}, {"a": {"b": 1}}, [[1]]]),
)


def toml(value: Any) -> str:
    """A value in TOML; tables are inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if isinstance(value, Literally):
        return value.text
    return json.dumps(value) if isinstance(value, str | bool | int | float) else str(value)


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, one in inside for found in paths(one, (*path, key)))]


def changed(document: dict[str, Any], path: tuple[str | int, ...], new: Any) -> dict[str, Any]:
    document = copy.deepcopy(document)
    holder: Any = document
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = new
    return document


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_value_in_any_place_is_accepted_or_refused_in_one_sentence(data: st.DataObject) -> None:
    document = tomllib.loads(data.draw(st.sampled_from(sorted(TEXTS.values()))))
    for _ in range(data.draw(st.integers(1, 3))):
        places = [path for path in paths(document) if path]
        document = changed(document, data.draw(st.sampled_from(places)), data.draw(_VALUES))
    text = "\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in document.items()) + "\n"
    check(text)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(TEXTS.values())), st.data())
def test_text_that_is_cut_or_mixed_up_is_accepted_or_refused_in_one_sentence(text: str, data: st.DataObject) -> None:
    lines = text.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        how = data.draw(st.sampled_from(["drop", "repeat", "cut", "swap"]))
        if how == "drop" and len(lines) > 1:
            del lines[at]
        elif how == "repeat":
            lines.insert(at, lines[at])
        elif how == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        else:
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
    check("\n".join(lines))


def check(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.toml"
        path.write_text(text)
        pipeline, errors = examine(path, Path(folder))
    assert (pipeline is None) == bool(errors)
    for error in errors:
        assert "\n" not in str(error), error
        assert "cannot be examined" not in str(error), "every mistake has a sentence of its own"
        assert 1 <= error.line <= max(1, text.count("\n") + 1)
    if pipeline is not None:
        assert compatible(as_json(pipeline), pipeline) == []
