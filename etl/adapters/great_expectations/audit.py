"""The audit: Great Expectations on the accepted rows, with Data Docs.

    pipeline ─▶ suite ─▶ validation of the accepted files ─▶ verdict ─▶ … ─▶ Data Docs (the newest `keep` runs)

The suite (`suite`) has the declared row rules, plus checks of the batch as a whole. Quarantine does not depend on it:
rows were routed before, and the audit proves that routing was right. It reads the files of the decision as a pandas
frame in this process: the same suite as on Spark at a hundredth of the fixed cost. Before results are stored and
rendered, sensitive values are removed and markup is escaped. The pages need no network (`data_docs`).
"""

from __future__ import annotations

import shutil
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.adapters.great_expectations import suite as audit_suite
from etl.adapters.great_expectations.data_docs.pages import Pages
from etl.contract.model import Pipeline

_MODULES = ("great_expectations", "great_expectations.checkpoint", "great_expectations.expectations")
_LOADING = threading.Lock()


def load() -> None:
    """Import Great Expectations, in one thread: its modules have import cycles that concurrent imports break."""
    with _LOADING:
        for module in _MODULES:
            import_module(module)


@dataclass(frozen=True, slots=True)
class Audit:
    """Where the audit keeps its results and pages, and how many of them."""

    results: Path
    docs: Path
    keep: int

    def check(self, accepted: pa.Table, pipeline: Pipeline, now: datetime, batch: int, expected: int) -> dict[str, Any]:
        """Run the suite on a batch: `{"success", "expectations": [...]}` in plain values."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Great Expectations uses deprecated functions
            load()
            expectations = list(audit_suite.suite(pipeline, now, expected, accepted.schema))
            return self._check(audit_suite.frame(accepted, pipeline, now), expectations, pipeline, batch)

    def _check(self, frame: Any, expectations: list[Any], pipeline: Pipeline, batch: int) -> dict[str, Any]:
        import great_expectations as gx

        name = pipeline.name
        context = gx.get_context(project_config=_in_memory(), mode="ephemeral")
        source = context.data_sources.add_pandas("warehouse")
        rows = source.add_dataframe_asset("accepted").add_batch_definition_whole_dataframe("batch")
        suite = context.suites.add(gx.ExpectationSuite(name, expectations))
        validation = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=rows, suite=suite))
        run = gx.RunIdentifier(run_name=_run_name(name, batch))
        results = context.validation_results_store
        results.serialize = partial(_serialize, results.serialize)
        outcome = validation.run(batch_parameters={"dataframe": frame}, run_id=run)
        audit_suite.mask(outcome.results, audit_suite.sensitive_columns(pipeline))
        verdict = {"success": bool(outcome.success), "expectations": [_plain(one) for one in outcome.results]}
        audit_suite.escape(outcome.results)
        for key in results.list_keys():
            self._pages.store(key.to_tuple(), results.serialize(outcome))
        return verdict

    def build_docs(self, name: str, batch: int) -> None:
        """Render a batch's result into Data Docs. Not part of `check`, so that the mart need not wait for pages."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load()
            self._prune(name)
            self._pages.build(name, _run_name(name, batch))

    @property
    def _pages(self) -> Pages:
        return Pages(self.results, self.docs)

    def folders(self, name: str) -> tuple[Path, Path]:
        """The folders of a suite's results and pages, each with a folder per batch."""
        return self.results / name, self.docs / "validations" / name

    def _prune(self, name: str) -> None:
        """Remove the oldest runs of a suite."""
        for root in self.folders(name):
            batches = sorted((path for path in root.glob("*") if path.is_dir()), key=lambda p: p.stat().st_mtime)
            for old in batches[: max(0, len(batches) - self.keep)]:
                shutil.rmtree(old, ignore_errors=True)


def _serialize(serialize: Callable[[Any], Any], outcome: Any) -> Any:
    """Serialize a result as its store does, which cannot write all of NumPy's values as JSON."""
    audit_suite.make_plain(outcome.results)
    return serialize(outcome)


def _run_name(name: str, batch: int) -> str:
    return f"{name}-{batch}"


def _in_memory() -> Any:
    """A Great Expectations context that stores nothing."""
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    return DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )


def _plain(one: Any) -> dict[str, Any]:
    arguments = one.expectation_config.kwargs
    result = one.result or {}
    observed = result.get("observed_value")
    return {
        "name": one.expectation_config.type,
        "column": arguments.get("column"),
        "success": bool(one.success),
        "unexpected": int(result.get("unexpected_count") or 0),
        "observed": None if observed is None else str(observed),
    }
