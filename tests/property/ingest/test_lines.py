"""However a file is cut into blocks, its lines are the same."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from etl.ingest.lines import KEPT_OF_TOO_LONG, LONGEST_LINE, LineReader, Lines, split

PIECES = st.sampled_from(
    [b"\n", b"\r\n", b"\r", b" ", b"a", b'{"x":1}', b"x" * (LONGEST_LINE - 1), b"y" * LONGEST_LINE, b"\xff\x00"]
)


def told(lines: Lines) -> list[tuple[int, bytes, bool]]:
    return list(zip(lines.number.tolist(), lines.raw.to_pylist(), lines.too_long.tolist(), strict=True))


def oracle(data: bytes) -> list[tuple[int, bytes, bool]]:
    found = []
    for number, line in enumerate(data.split(b"\n"), 1):
        line = line.removesuffix(b"\r")
        if len(line) > LONGEST_LINE:
            found.append((number, line[:KEPT_OF_TOO_LONG], True))
        elif line.strip():
            found.append((number, line, False))
    return found


@given(st.lists(PIECES, max_size=12).map(b"".join), st.lists(st.integers(0, 300_000), max_size=6))
def test_lines_do_not_depend_on_blocks(data: bytes, cuts: list[int]) -> None:
    reader = LineReader()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    found = [line for a, b in pairwise(places) for line in told(reader.feed(data[a:b]))]
    assert found + told(reader.finish()) == told(split(data, 1)) == oracle(data)
