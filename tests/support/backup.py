"""Rows of tables in Postgres, taken and put back as restoring a backup does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Execute = Callable[..., list[Any]]
Backup = Mapping[str, list[Any]]


def back_up(execute: Execute, tables: Iterable[str]) -> Backup:
    """All rows of some tables, as JSON."""
    return {name: execute(f"select to_jsonb(t)::text from {name} t") for name in tables}


def restore(execute: Execute, backup: Backup) -> None:
    """Put the rows back, and nothing else. What a table computes by itself it computes again."""
    execute(f"truncate {', '.join(backup)} cascade")
    for name, rows in backup.items():
        schema, table = name.split(".")
        found = execute(
            "select string_agg(quote_ident(column_name), ', ') from information_schema.columns "
            "where table_schema = %s and table_name = %s and is_generated = 'NEVER'",
            schema, table,
        )  # fmt: skip
        ((columns,),) = found
        for (row,) in rows:
            execute(
                f"insert into {name} ({columns}) select {columns} from jsonb_populate_record(null::{name}, %s::jsonb)",
                row,
            )
