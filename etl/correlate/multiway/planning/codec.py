"""Plans to JSON and back, so that a retried batch uses its original plan."""

from __future__ import annotations

from typing import Any

from etl.correlate.multiway.planning.partition import HashPartitioner, Partitioner, RangePartitioner, TablePartitioner
from etl.correlate.multiway.planning.tree import MJoin, Node, PMJoin, Source

Json = dict[str, Any]


def to_json(node: Node) -> Json:
    if isinstance(node, Source):
        return {"source": node.streams, "site": node.site}
    if isinstance(node, MJoin):
        return {"mjoin": [to_json(child) for child in node.children], "site": node.site}
    distinct = list(dict.fromkeys(node.plans))
    return {
        "pmjoin": [to_json(one) for one in node.inputs],
        "attribute": node.attribute,
        "partitioner": _partitioner_json(node.partitioner),
        "plans": [to_json(plan) for plan in distinct],
        "plan_of": [distinct.index(plan) for plan in node.plans],
    }


def from_json(value: Json) -> Node:
    if "source" in value:
        return Source(int(value["source"]), str(value["site"]))
    if "mjoin" in value:
        return MJoin(str(value["site"]), tuple(from_json(child) for child in value["mjoin"]))
    plans = [from_json(plan) for plan in value["plans"]]
    inputs = tuple(from_json(one) for one in value["pmjoin"])
    chosen = tuple(plans[number] for number in value["plan_of"])
    return PMJoin(int(value["attribute"]), _partitioner(value["partitioner"]), inputs, chosen)


def _partitioner_json(one: Partitioner) -> Json:
    if isinstance(one, HashPartitioner):
        return {"hash": one.partitions}
    if isinstance(one, RangePartitioner):
        return {"range": list(one.bounds)}
    assert isinstance(one, TablePartitioner), "there are three partitioners"
    return {
        "codes": list(one.codes), "numbers": list(one.numbers), "default": one.default, "partitions": one.partitions,
    }  # fmt: skip


def _partitioner(value: Json) -> Partitioner:
    if "hash" in value:
        return HashPartitioner(int(value["hash"]))
    if "range" in value:
        return RangePartitioner(tuple(value["range"]))
    return TablePartitioner(tuple(value["codes"]), tuple(value["numbers"]), value["default"], value["partitions"])
