"""Pages of the reference, from the code that they are about: commands, DAGs with their forms, schemas of files."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
_INTRODUCTION = """\
`FRONTSTAGE_TELEMETRY=otlp` lets the resident driver send them; where to is said by OpenTelemetry's own variables, such
as `OTEL_EXPORTER_OTLP_ENDPOINT`. [A Grafana dashboard](../grafana/frontstage.json) is ready for a Prometheus that
receives OTLP. `FRONTSTAGE_OPENLINEAGE_URL` sends an OpenLineage event per batch. The driver's log has one line of JSON
per batch, `"event": "batch"`, whatever is set."""
_SCHEMAS = {
    "A pipeline": "warehouse/pipelines/schema.json",
    "A stream": "warehouse/streams/schema.json",
    "A correlation": "warehouse/correlations/schema.json",
}


def pages() -> dict[str, str]:
    """By name, the text of every page."""
    return {"commands": commands(), "dags": dags(), "schemas": schemas(), "metrics": metrics()}


# ── commands ───────────────────────────────────────────────────────────────────────────────────────────────────────


def commands() -> str:
    """Every command with its arguments and options, as `--help` has them."""
    import typer

    from etl.cli import app

    return "\n".join(["# Commands", "", *_command(typer.main.get_command(app), "frontstage", 2)])


def _command(command: Any, name: str, level: int) -> Iterator[str]:
    children = getattr(command, "commands", {})
    if level > 2:
        yield from (f"{'#' * min(level, 4)} `{name}`", "", (command.help or "").strip(), "")
    rows = [_parameter(one) for one in command.params if one.name != "help"]
    if rows:
        yield from ("| given | default | what |", "| --- | --- | --- |", *rows, "")
    for word, child in sorted(children.items()):
        yield from _command(child, f"{name} {word}", level + 1)


def _parameter(one: Any) -> str:
    option = one.param_type_name == "option"
    given = ", ".join([*one.opts, *one.secondary_opts]) if option else (one.metavar or one.name.upper())
    default = "" if one.default in (None, "") or callable(one.default) else one.default
    return f"| `{given}` | {_cell(default)} | {_cell(getattr(one, 'help', '') or '')} |"


# ── DAGs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def dags() -> str:
    """Every DAG file with its documentation and the fields of its form, read without importing Airflow."""
    lines = ["# DAGs and their forms", "", "Values that a form refuses, the REST API refuses too.", ""]
    files, made = PROJECT / "dags", PROJECT / "etl" / "airflow" / "dags"
    for path in [*sorted(files.glob("*.py")), *sorted(made.glob("[!_]*.py"))]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        forms = list(_forms(tree))
        if path.parent == files or forms:
            lines += [f"## {path.relative_to(PROJECT)}", "", _quoted(ast.get_docstring(tree) or ""), ""]
        if forms:
            lines += ["| field | default | type | what |", "| --- | --- | --- | --- |", *forms, ""]
    return "\n".join(lines)


def _forms(tree: ast.Module) -> Iterator[str]:
    """The `Param`s of a module: constants, by the title that the form shows."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Param":
            words = {one.arg: _literal(one.value) for one in node.keywords}
            default = _literal(node.args[0]) if node.args else words.get("default", "")
            kind = words.get("type", "")
            kinds = " or ".join(kind) if isinstance(kind, list) else kind
            what = ", ".join(str(words[one]) for one in ("title", "description") if one in words)
            bounds = "".join(f", {one} {words[one]}" for one in ("minimum", "maximum", "enum") if one in words)
            name = str(words.get("title", "")).lower() or "–"
            yield f"| {_cell(name)} | {_cell(default)} | {_cell(kinds)}{_cell(bounds)} | {_cell(what)} |"


def _literal(node: ast.AST) -> Any:
    try:
        return ast.literal_eval(node)  # type: ignore[arg-type]
    except ValueError:
        return "computed"


def _quoted(text: str) -> str:
    return "```text\n" + text + "\n```"


# ── metrics ────────────────────────────────────────────────────────────────────────────────────────────────────────


def metrics() -> str:
    """Names of metrics and spans, as the module that records them documents them."""
    from etl.observe import telemetry

    return "\n".join(["# Metrics and traces", "", _INTRODUCTION, "", _quoted((telemetry.__doc__ or "").strip()), ""])


# ── schemas ────────────────────────────────────────────────────────────────────────────────────────────────────────


def schemas() -> str:
    """Keys of the files that users write, from the JSON Schemas that editors use."""
    explained = "[Pipeline files](../pipelines.md) and [correlations](../correlations.md) explain them."
    lines = ["# File formats", "", explained, ""]
    for title, place in _SCHEMAS.items():
        schema = json.loads((PROJECT / place).read_text(encoding="utf-8"))
        lines += [f"## {title}", "", f"`{place}` is the JSON Schema.", "", *_table(schema, title)]
    return "\n".join(lines)


def _table(schema: Mapping[str, Any], title: str) -> Iterator[str]:
    yield from _keys(schema, schema.get("required", ()))
    for name, part in sorted(schema.get("$defs", {}).items()):
        if part.get("properties"):
            yield from (f"### {title}: {name}", "", (part.get("description") or "").replace("\n", " "), "")
            yield from _keys(part, part.get("required", ()))


def _keys(part: Mapping[str, Any], required: Any) -> Iterator[str]:
    yield from ("| key | type | default | what |", "| --- | --- | --- | --- |")
    for name, one in part.get("properties", {}).items():
        needed = "**required**" if name in required else _cell(one.get("default", ""))
        yield f"| `{name}` | {_cell(_type(one))} | {needed} | {_cell(one.get('description', ''))} |"
    yield ""


def _type(one: Mapping[str, Any]) -> str:
    if "$ref" in one:
        return str(one["$ref"]).rsplit("/", 1)[-1]
    if "enum" in one:
        return "one of " + ", ".join(map(str, one["enum"]))
    if "const" in one:
        return json.dumps(one["const"])
    for word in ("anyOf", "oneOf"):
        if word in one:
            return " or ".join(dict.fromkeys(_type(part) for part in one[word]))
    kind = one.get("type", "any")
    if kind == "array":
        return f"list of {_type(one.get('items', {}))}"
    if kind == "object" and isinstance(one.get("additionalProperties"), dict):
        return f"table of {_type(one['additionalProperties'])}"
    return str(kind)


def _cell(value: Any) -> str:
    """A value inside a table of Markdown."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
