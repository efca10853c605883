"""Move an incomplete entry at the end of a Delta log aside, as a power cut leaves it.

    commit by delta-rs: entry, checkpoint ── sync ── ledger's commit
                                          └─ power cut: the newest entry may be there without all of its bytes

The ledger commits after the entry is synced (ADR 76). So an incomplete entry belongs to a batch that is not loaded, and
is written again when that batch is retried.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from etl.adapters.durable import sync_folder

_ENTRY = re.compile(r"\d{20}\.json")
ASIDE = ".torn.tmp"
"""Suffix of files that were moved aside; maintenance removes them after a day."""


def put_aside(folder: Path) -> list[str]:
    """Move the newest log entry and its checkpoint aside if they are incomplete; returns their names."""
    log = folder / "_delta_log"
    names = sorted(path.name for path in log.iterdir()) if log.is_dir() else []
    newest = next((name for name in reversed(names) if _ENTRY.fullmatch(name)), None)
    if newest is None:
        return []
    torn = [] if _is_whole(log / newest) else [newest]
    checkpoint = newest.replace(".json", ".checkpoint.parquet")  # earlier ones were synced long ago
    if not _is_parquet(log / checkpoint):
        torn.append(checkpoint)
    if checkpoint in torn or not _hint_is_whole(log / "_last_checkpoint"):
        torn.append("_last_checkpoint")  # a hint; without it the log is listed
    found = [name for name in torn if (log / name).exists()]
    for name in found:
        (log / name).rename(log / f".{name}{ASIDE}")
    if found:
        sync_folder(log)
    return found


def _is_whole(entry: Path) -> bool:
    try:
        lines = [json.loads(line) for line in entry.read_bytes().splitlines() if line.strip()]
    except ValueError:
        return False
    return len(lines) > 0


def _hint_is_whole(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except FileNotFoundError:
        return True
    except ValueError:
        return False
    return True


def _is_parquet(path: Path) -> bool:
    try:
        pq.read_metadata(path)
    except pa.ArrowInvalid:  # no other error: a failing read says nothing about the content
        return False
    except FileNotFoundError:
        return True
    return True
