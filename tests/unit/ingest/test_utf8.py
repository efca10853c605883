"""UTF-8 against Python's decoder, at every border of the encoding."""

from __future__ import annotations

from itertools import product

import numpy as np

from etl.ingest.kernels.utf8 import is_utf8, put_code_point

BORDERS = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff")


def decodes(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_every_combination_of_border_bytes_is_judged_as_python_judges_it() -> None:
    shorter = [bytes(text) for size in (1, 2, 3) for text in product(BORDERS, repeat=size)]
    longer = [bytes(text) for text in product(bytes.fromhex("ef f0 f1 f3 f4 f5"), BORDERS, BORDERS, BORDERS)]
    texts = shorter + longer
    data = np.frombuffer(b"".join(texts), np.uint8)
    data.flags.writeable = False
    end = 0
    wrong = []
    for text in texts:
        start, end = end, end + len(text)
        if is_utf8(data, start, end) != decodes(text):
            wrong.append(text.hex())
    assert wrong == []


def test_code_points_are_written_as_python_writes_them() -> None:
    for code in (0x01, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF):
        out = np.zeros(4, np.uint8)
        end = put_code_point(code, out, 0)
        assert out[:end].tobytes() == chr(code).encode()
