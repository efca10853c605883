"""The schema of a pipeline file, for pydantic: its keys and the types of their values.

These models serve for the first check of a file, and for the JSON Schema for editors. The meaning of values is checked
later (`build.py`, `check.py`), where names are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue

from etl.contract.model import Distribution, Shedding
from etl.contract.words.expectation_types import EXPECTATIONS
from etl.contract.words.times import SCHEDULES
from etl.contract.words.types import SIMPLE

_SCALAR = {"type": ["boolean", "number", "string"]}
Value = Annotated[bool | int | Decimal | str | datetime | date, WithJsonSchema(_SCALAR)]
Sql = Annotated[str, Field(min_length=1, description="A SQL expression in Spark's dialect.")]
Duration = Annotated[
    str, Field(min_length=1, examples=["30s", "5 minutes", "24h", "7d"], description="A length of time.")
]


class OtherForm(ValueError):
    """A value has none of the forms in which it may be written; the message is what is allowed."""


class Short:
    """A table that may be written as one text, the value of `key`. `allowed`: what editors let it be."""

    def __init__(self, key: str, description: str, allowed: Mapping[str, Any] | None = None) -> None:
        self.key, self.description, self.allowed = key, description, allowed or {}

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", "description": self.description, **self.allowed}, handler(core)]}


def _table_of(key: str) -> BeforeValidator:
    def table(given: object) -> object:
        if not isinstance(given, str | dict):
            raise OtherForm("a text or a table")
        return {key: given} if isinstance(given, str) else given

    return BeforeValidator(table)


class Table(BaseModel):
    """A table of the file: no other keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Limits(Table):
    """What a value must satisfy."""

    min: Value | None = Field(None, description="The least value of a number.")
    max: Value | None = Field(None, description="The greatest value of a number.")
    after: Value | None = Field(None, description="The earliest date or time; `now - 7d` is relative to the batch.")
    before: Value | None = Field(None, description="The latest date or time; `now + 24h` is relative to the batch.")
    one_of: list[Value] | None = Field(None, min_length=1, description="All values that are allowed.")
    pattern: str | None = Field(None, description="A regular expression (RE2) that the whole text matches.")


_TYPES: dict[str, Any] = {"anyOf": [{"enum": list(SIMPLE)}, {"pattern": r"^decimal\(\d{1,2}, *\d{1,2}\)$"}]}
"""For editors, which complete the names; `words.types` reads types."""


class FieldTable(Limits):
    """One typed value of an event."""

    type: str = Field(
        description="int, bigint, double, boolean, string, date, timestamp or decimal(p,s).",
        examples=["bigint", "decimal(18,4)", "timestamp"],
        json_schema_extra=_TYPES,
    )
    required: bool | None = Field(None, description="Whether an event without it is refused; true unless said.")
    default: Value | None = Field(None, description="The value of an event that has none.")
    source: str | None = Field(None, alias="from", min_length=1, description="Its name in the input, if another.")
    format: str | None = Field(
        None, min_length=1, description="strptime pattern of a date or time; ISO 8601 unless said."
    )
    strip: str | None = Field(None, min_length=1, description="Characters removed before the value is read: `$,`.")


class RuleTable(Limits):
    """A rule with a name of its own."""

    column: str | None = Field(None, description="The field that the limits are about.")
    not_null: Literal[True] | None = Field(None, description="The field has a value.")
    sql: Sql | None = Field(None, description="True for a row that is accepted, in Spark's dialect.")


class SourceTable(Table):
    """Where events arrive: `landing` (files) or `topic` (messages), one of them."""

    landing: str | None = Field(
        None, min_length=1, description="Folder where files appear, relative to the home folder."
    )
    format: Literal["jsonl", "csv", "parquet"] = Field("jsonl", description="JSON lines, CSV or Parquet.")
    delimiter: str | None = Field(None, min_length=1, max_length=1, description="Between the values of CSV: a comma.")
    topic: str | None = Field(None, min_length=1, description="Kafka topic whose messages are events, one each.")
    servers: str | None = Field(
        None,
        min_length=1,
        examples=["broker-1:9092,broker-2:9092"],
        description="Brokers of the topic; FRONTSTAGE_KAFKA_SERVERS unless said.",
    )
    start: Literal["earliest", "latest"] | None = Field(
        None, description="Where the first batch begins in the topic: earliest unless said."
    )
    tombstones: Literal["quarantine", "skip"] | None = Field(
        None, description="What becomes of messages without a value: quarantine unless said."
    )
    on_loss: Literal["stop", "skip"] | None = Field(
        None,
        description="When offsets are gone before a batch has read them, or the topic was made anew: stop the run "
        "unless said, or go on with what is there and write down what was lost.",
    )


class StreamTable(Table):
    source: SourceTable = Field(description="Where events arrive.")
    key: list[str] = Field(min_length=1, description="Fields that tell one event from another.")
    event_time: str | None = Field(None, description="The date or timestamp field that says when it happened.")
    fields: dict[
        str, Annotated[FieldTable, _table_of("type"), Short("type", "The field's type.", _TYPES)]
    ] = Field(min_length=1, description="The typed values of an event, by name.")  # fmt: skip


class MasterTable(Table):
    table: str = Field(
        description="`postgres:schema.table`, or `delta:` and a path relative to the home folder or a URL.",
        pattern=r"^(postgres|delta):.+",
    )
    on: dict[str, str] = Field(min_length=1, description="Stream fields and the key columns that they match.")
    columns: list[str] | None = Field(
        None, min_length=1, description="What events receive; all but the key unless said."
    )
    required: bool = Field(True, description="An event without its row waits; otherwise it goes on with NULLs.")
    version: str | None = Field(None, description="Timestamp column that dates a row; scd2 needs it.")
    history: Literal["scd1", "scd2", "none"] = Field(
        "scd1", description="The dimension keeps newest values, all versions; or columns enter the fact instead."
    )
    follow: Literal["change_log", "updated_at"] = Field(
        "change_log", description="How changes in Postgres are seen: by a trigger, or by the version column."
    )


class FactTable(Table):
    measures: dict[str, Sql] = Field(default_factory=dict, description="Computed columns of the fact.")


def _named_columns(given: Any) -> Any:
    """A list of columns as a table: `person.name` is called `person_name`."""
    if isinstance(given, dict):
        return given
    if not isinstance(given, list):
        raise OtherForm("a list or a table")
    named: dict[str, str] = {}
    for item in given:
        if not isinstance(item, str):
            raise ValueError(f"columns are named by texts; given is {item!r}")
        name = item.replace(".", "_")
        if name in named:
            raise ValueError(f"column {name!r} is there twice; give one of them another name in a table")
        named[name] = quoted(item)
    return named


def quoted(column: str) -> str:
    """A column's name as SQL."""
    return ".".join(f"`{part}`" for part in column.split("."))


class _Columns:
    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "array", "items": {"type": "string"}, "minItems": 1}, handler(core)]}


ColumnTable = Annotated[dict[str, Sql], BeforeValidator(_named_columns), _Columns()]


class MartEntry(Table):
    """Either `columns` (a row per event) or `group_by` and `values` (an aggregate)."""

    columns: ColumnTable = Field(default_factory=dict, description="A row per event: columns by name.")
    group_by: ColumnTable = Field(default_factory=dict, description="An aggregate's groups: columns by name.")
    values: dict[str, Sql] = Field(
        default_factory=dict, description="An aggregate's values: count(*), count(x), sum(x), min(x) or max(x)."
    )


class ExpectationTable(BaseModel):
    """An expectation about a whole batch of accepted rows; other keys are its arguments."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    type: Annotated[
        str, Field(description="Its name in Great Expectations.", json_schema_extra={"enum": sorted(EXPECTATIONS)})
    ]


class Document(Table):
    """A pipeline: a stream of events, the masters that enrich it, and what becomes of it."""

    name: str | None = Field(None, description="The pipeline's name; the file's name unless said.")
    schedule: str = Field("on_arrival", description="When batches run: " + ", ".join(SCHEDULES) + " or cron.")
    deadline: Duration = Field("30s", description="How long a batch may take.")
    freshness: Duration | None = Field(
        None, description="How long a run may take before somebody is alerted; nobody is unless said."
    )
    shedding: Shedding = Field(
        "consider",
        description="What a batch does when more waits than it can serve in time: serve what is cheap and defer the "
        "dearest events, keep the first and defer the others, or take as long as it takes.",
    )
    grace: Duration = "7d"
    after_grace: Literal["quarantine", "unknown"] = Field(
        "quarantine",
        description="When a required master row has not come within the grace: refuse the event, or accept it with the "
        "unknown member and correct it when the row comes.",
    )
    schema_drift: Literal["stop", "quarantine"] = Field(
        "stop", description="When nearly all lines lack a required field: stop the run, or refuse the lines."
    )
    held: Literal["wait", "go_on"] = Field(
        "wait",
        description="When an audit has failed: later batches wait for a person's decision, or go on and the accepted "
        "events of that batch wait aside.",
    )
    hold_on: list[Distribution] = Field(
        default_factory=list,
        description="Figures that hold a batch when they are not as in the last batches; all others only warn.",
    )
    sensitive: list[str] = Field(default_factory=list, description="Columns that reports and pages show masked.")
    stream: StreamTable = Field(description="What an event is, and where events arrive.")
    rules: dict[
        str, Annotated[RuleTable, _table_of("sql"), Short("sql", "True for a row that is accepted.")]
    ] = Field(default_factory=dict, description="Why an event is refused, by name.")  # fmt: skip
    master: dict[str, MasterTable] = Field(default_factory=dict, description="Tables that enrich events, by name.")
    fact: FactTable = Field(default_factory=FactTable, description="What is computed for every accepted event.")
    mart: dict[str, MartEntry] = Field(default_factory=dict, description="Tables of the Postgres mart, by name.")
    expectations: list[ExpectationTable] = Field(default_factory=list, description="Checks of whole batches.")
