"""Notifiers for tests: what they are told becomes a line of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier


class FileNotifier(BaseNotifier):
    """Knows no coroutines, as many notifiers do not."""

    template_fields = ("text",)

    def __init__(self, path: str, text: str) -> None:
        super().__init__()
        self.path, self.text = path, text

    def notify(self, context: Any) -> None:
        assert context["dag_run"]["dag_id"] == context["frontstage"]["pipeline"]
        with Path(self.path).open("a") as file:
            file.write(f"{self.text}\n")
