"""The gate: Great Expectations on what was accepted, with Data Docs that people can read.

The suite comes from the same declared rules as the row rules in the plan, plus what only the whole batch can show.
Quarantine does not depend on it: rows were routed before. The gate is the proof that routing did its work.

    contract ─▶ suite ─▶ checkpoint on the accepted rows ─▶ verdict + Data Docs (the newest `keep` runs)
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from etl.model import BatchId
from etl.validate.rules import Bounds, resolve
from warehouse.contract import Contract

_NAME = "accepted_orders"


@dataclass(frozen=True, slots=True)
class Gate:
    """Where the gate keeps its results and pages, and how many of them."""

    results: Path
    docs: Path
    keep: int

    def check(
        self, accepted: DataFrame, contract: Contract, bounds: Bounds, batch: BatchId, expected_rows: int
    ) -> dict[str, Any]:
        """Run the suite on a batch and add it to Data Docs: `{"success", "expectations": [...]}` in plain values."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Great Expectations' own use of what others have deprecated
            return self._check(accepted, list(_suite(contract, bounds, expected_rows)), batch)

    def _check(self, accepted: DataFrame, expectations: list[Any], batch: BatchId) -> dict[str, Any]:
        import great_expectations as gx
        from great_expectations.checkpoint import UpdateDataDocsAction

        self._prune()
        context = gx.get_context(project_config=self._config(), mode="ephemeral")
        source = context.data_sources.add_spark("warehouse", persist=False)
        rows = source.add_dataframe_asset("staging").add_batch_definition_whole_dataframe("accepted")
        suite = context.suites.add(gx.ExpectationSuite(_NAME, expectations))
        validation = context.validation_definitions.add(gx.ValidationDefinition(name=_NAME, data=rows, suite=suite))
        docs = UpdateDataDocsAction(name="docs")
        checkpoint = context.checkpoints.add(
            gx.Checkpoint(name=_NAME, validation_definitions=[validation], actions=[docs])
        )
        name = gx.RunIdentifier(run_name=f"batch-{batch}")
        result = checkpoint.run(batch_parameters={"dataframe": accepted}, run_id=name)
        (outcome,) = result.run_results.values()
        return {"success": bool(result.success), "expectations": [_plain(one) for one in outcome.results]}

    def _config(self) -> Any:
        from great_expectations.data_context.types.base import (
            DataContextConfig,
            InMemoryStoreBackendDefaults,
            ProgressBarsConfig,
        )

        defaults = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
        stores = {
            **defaults.stores,
            defaults.validation_results_store_name: {
                "class_name": "ValidationResultsStore",
                "store_backend": _folder(self.results),
            },
        }
        site = {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": _folder(self.docs),
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        }
        return DataContextConfig(
            store_backend_defaults=defaults,
            stores=stores,
            data_docs_sites={"data_docs": site},
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        )

    def _prune(self) -> None:
        """Forget the oldest runs: the index is built from all that are kept."""
        for root in (self.results, self.docs / "validations"):
            batches = sorted((path for path in root.glob("*/*") if path.is_dir()), key=lambda p: p.stat().st_mtime)
            for old in batches[: max(0, len(batches) - self.keep)]:
                shutil.rmtree(old, ignore_errors=True)


def _folder(path: Path) -> dict[str, str]:
    path.mkdir(parents=True, exist_ok=True)
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(path)}


def _suite(contract: Contract, bounds: Bounds, expected_rows: int) -> Iterator[Any]:
    from great_expectations import expectations as expect

    yield expect.ExpectTableRowCountToEqual(value=expected_rows)
    yield expect.ExpectColumnValuesToBeUnique(column="order_id")
    for field in contract.fields:
        yield expect.ExpectColumnValuesToNotBeNull(column=field.name)
    for master in contract.masters:
        yield expect.ExpectColumnValuesToNotBeNull(column=f"{master.name}_name")
    for rule in contract.rules:
        yield expect.ExpectColumnValuesToBeBetween(
            column=rule.column, min_value=resolve(rule.min, bounds), max_value=resolve(rule.max, bounds)
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
