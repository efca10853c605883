"""The masters that the declared pipelines use: one per table, even if several pipelines or names refer to it."""

from __future__ import annotations

from dataclasses import replace

from etl.contract.load import load_all
from etl.contract.model import Master
from etl.masters.masters import store_name
from etl.settings import Settings


def declared_masters(settings: Settings) -> tuple[Master, ...]:
    """Every master table once, under its first name; a name that is taken is prefixed with the pipeline's."""
    found: dict[str, Master] = {}
    for pipeline in load_all(settings.pipelines, settings.var).pipelines:
        for master in pipeline.masters:
            if store_name(master) in found:
                continue
            taken = any(other.name == master.name for other in found.values())
            found[store_name(master)] = replace(master, name=f"{pipeline.name}.{master.name}") if taken else master
    return tuple(found.values())
