"""All of our DAGs for an existing Airflow: a file of two lines in its DAGs folder is enough.

    from etl.airflow.all_dags import all_dags  # airflow: dag
    globals().update(all_dags())

The DAG files are those of the checkout, or of the installed wheel, which keeps them in `etl/airflow/dag_files`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from airflow.sdk import DAG

from etl.errors import MissingPart
from etl.settings import DAG_FILES


def all_dags() -> dict[str, DAG]:
    """The DAGs of all declared pipelines and the maintenance DAGs, by id."""
    found: dict[str, DAG] = {}
    for path in sorted(folder().glob("*.py")):
        found |= {dag.dag_id: dag for dag in vars(_loaded(path)).values() if isinstance(dag, DAG)}
    return found


def folder() -> Path:
    """The folder of the DAG files."""
    if (DAG_FILES / "pipelines.py").is_file():
        return DAG_FILES
    raise MissingPart("the DAG files of Frontstage are not installed", "install its wheel again")


def _loaded(path: Path) -> ModuleType:
    """Load a DAG file as a module under a unique name."""
    spec = importlib.util.spec_from_file_location(f"frontstage_dags_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise MissingPart(f"{path} cannot be loaded", "install the wheel again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
