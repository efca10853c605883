"""What is looked at every few seconds of a soak: every process by kind, and what tables and folders hold."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import psutil
from deltalake import DeltaTable

from etl.adapters import ledger
from etl.settings import Settings

EVERY_S = 5.0
SHORT_LIVED = "airflow task"
OTHERS = "others"
TABLES = ("fact", "quarantine", "backlog")
LISTED = ("landed_files", *(f"{table}_files" for table in TABLES))
Sample = dict[str, float]

_TITLES = {
    "postgres:": "postgres",
    "airflow worker -- LocalExecutor": "airflow executor",
    "airflow worker": SHORT_LIVED,
    "airflow task": SHORT_LIVED,
    "airflow scheduler": "airflow scheduler",
    "airflow api": "airflow api server",
    "airflow dag-processor": "airflow dag processor",
    "airflow triggerer": "airflow triggerer",
}
_PROGRAMS = {
    "guard.py": "guards",
    "/bin/postgres": "postgres",
    "etl.stack.airflow.host": "airflow host",
    "etl.spark.runner": "spark driver",
    "etl.spark.daemon": "spark workers",
}


def kind(command: Sequence[str]) -> str:
    """What a process is, by its command line: of two titles that fit, the longer one is before the other."""
    line = " ".join(command).strip()
    for title, name in _TITLES.items():
        if line.startswith(title):
            return name
    if command and command[0].endswith("java"):
        return "jvm"
    return next((name for program, name in _PROGRAMS.items() if program in line), OTHERS)


def processes(supervisor: int) -> Sample:
    """Memory, shared pages by their part, and open files of a stack's processes, by kind."""
    found: Sample = defaultdict(float)
    for name, process in _kinds(psutil.Process(supervisor)):
        try:
            memory, files = process.memory_full_info().pss / 2**20, process.num_fds()
        except (psutil.Error, OSError):
            continue  # it has ended
        found[f"memory_mb {name}"] += memory
        found[f"open_files {name}"] += files
        found[f"processes {name}"] += 1
    return dict(found)


def _kinds(supervisor: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    yield "supervisor", supervisor
    for process in supervisor.children(recursive=True):
        try:
            yield kind(process.cmdline()), process
        except (psutil.Error, OSError):
            continue


@dataclass
class Sampler:
    """Takes samples of one stack and one of its pipelines."""

    settings: Settings
    dsn: str = field(repr=False)
    pipeline: str
    supervisor: int
    samples: list[Sample] = field(default_factory=list)

    def run(self, over: threading.Event) -> None:
        while not over.wait(EVERY_S):
            self.samples.append({**processes(self.supervisor), **self._state()})

    def _state(self) -> Sample:
        with ledger.reading(self.dsn, self.pipeline) as book:
            runs, waiting = len(book.claim_runs()), sum(one.waiting for one in book.backlog_files())
        landing = self.settings.var / "landing" / self.pipeline
        return {
            "claim_runs": runs,
            "backlog": waiting,
            "landed_files": sum(1 for _ in landing.glob("*.jsonl")),
            **{f"{table}_files": self._listed(table) for table in TABLES},
        }

    def _listed(self, table: str) -> int:
        """How many files a table's newest version names."""
        folder = self.settings.warehouse / self.pipeline / table
        return len(DeltaTable(str(folder)).file_uris()) if (folder / "_delta_log").exists() else 0
