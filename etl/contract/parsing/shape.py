"""The first check of a file: TOML syntax, keys, types of values. Each mistake becomes one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from etl.contract.errors import Mistake, TomlPath, unknown
from etl.contract.parsing.document import Document, OtherForm

M = TypeVar("M", bound=BaseModel)
_KINDS = {
    "string_type": "a text",
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "list_type": "a list",
    "int_type": "a whole number",
    "greater_than_equal": "a larger number",
}
_ANY_VALUE = "a number, a text, a date, a date with a time, true or false"


def document(declared: dict[str, Any]) -> tuple[Document | None, list[Mistake]]:
    """The document of a pipeline's file, or its mistakes."""
    return shaped(Document, "a pipeline", declared)


def shaped(model: type[M], noun: str, declared: dict[str, Any]) -> tuple[M | None, list[Mistake]]:
    """Validate a file's values: the document, or its mistakes. `noun`: what the file declares."""
    try:
        return model.model_validate(declared), []
    except ValidationError as error:
        found: dict[TomlPath, list[Mapping[str, Any]]] = {}
        # Report a misspelt key before the key that is therefore missing.
        for details in sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden"):
            found.setdefault(_within(details["loc"], declared), []).append(details)
        return None, [
            _mistake(path, errors, model, noun) for path, errors in found.items() if not _is_within(path, errors, found)
        ]


def _is_within(path: TomlPath, errors: list[Mapping[str, Any]], found: Iterable[TomlPath]) -> bool:
    """Whether a value has another type than one branch of a union, and the mistake lies within the other branch."""
    deeper = any(len(one) > len(path) and one[: len(path)] == path for one in found)
    return deeper and all(error["type"].endswith("_type") for error in errors)


def _mistake(path: TomlPath, errors: list[Mapping[str, Any]], model: type[BaseModel], noun: str) -> Mistake:
    """The mistake at a path; a value that fits no branch of a union has an error for each branch."""
    error = errors[0]
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        known = _keys(model, path[:-1])
        return Mistake(path, unknown(f"a key of {_place(path[:-1], noun)}", str(path[-1]), known, "keys"))
    if kind == "missing":
        return Mistake(path, f"{_place(path, noun)} has no {error['loc'][-1]!r}; it needs one")
    if kind == "value_error" and not isinstance(context["error"], OtherForm):
        return Mistake(path, str(context["error"]))
    allowed = _allowed_by_any({one["type"]: one.get("ctx", {}) for one in errors})
    return Mistake(path, f"{_dotted(path)} is {_shown(error['input'])}, but must be {allowed}")


def _within(location: tuple[int | str, ...], declared: Any) -> TomlPath:
    """The part of pydantic's location that is a path in the file; the rest names branches of unions."""
    path: list[int | str] = []
    for part in location:
        if isinstance(declared, dict) and part in declared:
            declared = declared[str(part)]
        elif isinstance(declared, list) and isinstance(part, int) and part < len(declared):
            declared = declared[part]
        else:
            break
        path.append(part)
    return tuple(path)


def _allowed_by_any(errors: Mapping[str, dict[str, Any]]) -> str:
    """What the branches of a union allow, by their errors."""
    if "finite_number" in errors:
        return "a finite number"
    if {"bool_type", "string_type"} <= errors.keys():
        return _ANY_VALUE
    return " or ".join(dict.fromkeys(_allowed(kind, context) for kind, context in errors.items()))


def _allowed(kind: str, context: dict[str, Any]) -> str:
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"one of {context['expected'].replace(' or ', ', ')}"
    if kind in ("too_short", "string_too_short"):
        return "not empty"
    if kind == "string_too_long":
        return f"at most {context['max_length']} character"
    if kind == "string_pattern_mismatch":
        return "`postgres:schema.table` or `delta:path`"
    return _KINDS.get(kind, _ANY_VALUE)


def _keys(root: type[BaseModel], path: TomlPath) -> list[str]:
    """The keys that the table at a path may have."""
    model: Any = root
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            fields = {field.alias or name: field for name, field in model.model_fields.items()}
            model = _bare(fields[str(part)].annotation)
        else:
            model = _bare(get_args(model)[-1])
    assert issubclass(model, BaseModel), "only tables with known keys refuse others"
    return [field.alias or name for name, field in model.model_fields.items()]


def _bare(annotation: Any) -> Any:
    """A type without `Annotated` and `None`."""
    while get_origin(annotation) is Annotated or get_origin(annotation) in (Union, UnionType):
        annotation = get_args(annotation)[0]
    return annotation


def _place(path: TomlPath, noun: str) -> str:
    return f"[{_dotted(path)}]" if path else noun


def _dotted(path: TomlPath) -> str:
    return ".".join(str(part) for part in path)


def _shown(given: Any) -> str:
    if isinstance(given, dict):
        return "a table"
    text = str(given).lower() if isinstance(given, bool | Decimal) else str(given)
    text = repr(given) if isinstance(given, str | list) else text.replace("infinity", "inf")
    return text if len(text) <= 60 else text[:57] + "..."
