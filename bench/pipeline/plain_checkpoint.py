"""The checkpoint of *plain*: one Great Expectations suite on the Spark DataFrame, with Data Docs.

Context, suite and checkpoint are made once; a batch only runs it. The expectations are those of the pipeline's gate.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

_NAME = "accepted_orders"
_PRESENT = (
    "order_id", "customer_id", "product_id", "quantity", "unit_price", "ordered_at", "customer_name", "product_name",
)  # fmt: skip


class CheckpointFailed(Exception):
    """An expectation does not hold on what was accepted."""


class Checkpoint:
    """Great Expectations, ready to be asked."""

    def __init__(self, docs: Path) -> None:
        self._docs = docs

    def run(self, accepted: DataFrame, batch: int) -> None:
        """Run the suite on a batch and add the result to Data Docs."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Great Expectations' own use of what others have deprecated
            result = self._run(accepted, batch)
        if not result.success:
            (outcome,) = result.run_results.values()
            failed = [one.expectation_config.type for one in outcome.results if not one.success]
            raise CheckpointFailed(f"batch {batch}: {', '.join(failed)}")

    def _run(self, accepted: DataFrame, batch: int) -> Any:
        import great_expectations as gx

        name = gx.RunIdentifier(run_name=f"batch-{batch}")
        return self._checkpoint.run(batch_parameters={"dataframe": accepted}, run_id=name)

    @cached_property
    def _checkpoint(self) -> Any:
        import great_expectations as gx
        from great_expectations.checkpoint import UpdateDataDocsAction

        context = gx.get_context(project_config=self._config(), mode="ephemeral")
        source = context.data_sources.add_spark("warehouse", persist=False)
        rows = source.add_dataframe_asset("accepted").add_batch_definition_whole_dataframe("batch")
        suite = context.suites.add(gx.ExpectationSuite(_NAME, list(_expectations())))
        validation = context.validation_definitions.add(gx.ValidationDefinition(name=_NAME, data=rows, suite=suite))
        return context.checkpoints.add(
            gx.Checkpoint(name=_NAME, validation_definitions=[validation], actions=[UpdateDataDocsAction(name="docs")])
        )

    def _config(self) -> Any:
        from great_expectations.data_context.types.base import (
            DataContextConfig,
            InMemoryStoreBackendDefaults,
            ProgressBarsConfig,
        )

        self._docs.mkdir(parents=True, exist_ok=True)
        site = {
            "class_name": "SiteBuilder",
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(self._docs)},
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        }
        return DataContextConfig(
            store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
            data_docs_sites={"data_docs": site},
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        )


def _expectations() -> Iterator[Any]:
    from great_expectations import expectations as expect

    latest = datetime.now(UTC) + timedelta(days=1)
    yield expect.ExpectTableRowCountToBeBetween(min_value=1)
    yield expect.ExpectColumnValuesToBeUnique(column="order_id")
    for column in _PRESENT:
        yield expect.ExpectColumnValuesToNotBeNull(column=column)
    for column, least, most in (
        ("order_id", 1, None),
        ("quantity", 1, 100_000),
        ("unit_price", 0, 10_000_000),
        ("ordered_at", datetime(2000, 1, 1, tzinfo=UTC), None),
        ("ordered_at", None, latest),
    ):
        yield expect.ExpectColumnValuesToBeBetween(column=column, min_value=least, max_value=most)
