"""The biclique's benchmark: settings by their names in the paper, and results of other parts that stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.biclique.result import Figure, at_least, store
from bench.biclique.simulate import router_of
from etl.correlate.biclique.routing import BicliqueRouter, MatrixRouter


@pytest.mark.parametrize("name", ["JB8", "JB16", "JB16-CR4", "JB64"])
def test_a_biclique_setting_has_half_its_units_on_either_side(name: str) -> None:
    router = router_of(name)
    assert isinstance(router, BicliqueRouter)
    assert len(router.units) == int(name[2:].partition("-")[0])
    assert len(router.left.subgroups) == len(router.right.subgroups) == int(name.partition("-CR")[2] or 1)


def test_a_matrix_setting_is_square() -> None:
    assert router_of("JM36") == MatrixRouter(6, 6)


def test_a_figure_replaces_its_own_rows_and_aims_and_keeps_those_of_others(tmp_path: Path) -> None:
    file = tmp_path / "biclique.json"
    peers = {
        "rows": [{"figure": "peers", "y": 1}, {"figure": "6a", "y": 2}],
        "aims": [{"name": "peers"}, {"name": "more"}],
    }
    file.write_text(json.dumps(peers))
    store([Figure("6a", "t", "x", "y", {"JB16": [(1, 2.0)]}, aims=(at_least("more", 4.0, 3.0),))], {"6a": 1.0}, file)
    stored = json.loads(file.read_text())
    assert [row["figure"] for row in stored["rows"]] == ["peers", "6a"]
    assert stored["rows"][1] == {"figure": "6a", "series": "JB16", "x": 1, "y": 2.0}
    assert stored["aims"][0] == {"name": "peers"}
    assert stored["aims"][1] == {"name": "more", "wanted": ">= 3", "measured": 4.0, "met": True}
