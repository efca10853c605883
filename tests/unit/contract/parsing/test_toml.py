"""The values of TOML files, and the sentences about what lies beyond all bounds."""

from __future__ import annotations

from decimal import Decimal

import pytest

from etl.contract.errors import PipelineFileError
from etl.contract.parsing.toml import values_of


def test_numbers_with_a_point_are_exact():
    assert values_of("a = 0.1\nb = 1e3\nc = 5", "a.toml") == {"a": Decimal("0.1"), "b": Decimal("1e3"), "c": 5}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 2_000 + "]" * 2_000, "nested more than 32 deep"),
        ("[" * 250 + "]" * 250, "nested more than 32 deep"),
        ("[" * 33 + "]" * 33, "nested more than 32 deep"),
        ("{ a = " * 50 + "1" + "}" * 50, "nested more than 32 deep"),
        ("9" * 5_000, "a number is too long"),
        ("0x" + "f" * 5_000, "a number is too long"),
        ("1e" + "9" * 30, "a number is too long"),
    ],
    ids=range(7),
)
def test_what_is_beyond_all_bounds_is_a_sentence_with_its_line(text: str, sentence: str):
    with pytest.raises(PipelineFileError, match=f"a.toml, line 3: .*{sentence}"):
        values_of(f'name = "a"\nlist = [[1], [2]]\nvalue = {text}\nlast = 1\n', "a.toml")


def test_a_key_of_many_parts_is_nested_too_deeply():
    with pytest.raises(PipelineFileError, match=r"a.toml, line 2: .*nested"):
        values_of(f"a = 1\n[{'.'.join(['b'] * 2_000)}]\n", "a.toml")
