"""The payload hash: equal for equal typed values, however they were written.

    {"id": 7, "price": 1.5}   {"price":1.50,"id":7}     the same payload
    {"id": 7, "note": null}   {"id": 7, "note": ""}     different ones

64 bits over the declared fields, in declared order. The function must never change: hashes are stored in the warehouse
beside the claimed keys, and payloads of one key are compared by them across machines and versions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.jit import kernel
from etl.columnar.keys import to_contiguous
from etl.ingest.events import EXTRA

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

_SEED = np.uint64(0x452821E638D01377)
_NULL = np.uint64(0xBE5466CF34E90C6C)
_MULTIPLY_A, _MULTIPLY_B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S8 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(8)


def payload_hash(batch: pa.RecordBatch) -> I64:
    """One hash per row over all columns but `extra`."""
    state = np.full(batch.num_rows, _SEED, np.uint64)
    for name in batch.schema.names:
        if name == EXTRA:
            continue
        values = to_contiguous(batch.column(name))
        valid = np.asarray(values.is_valid())
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            _fold_bytes(state, *_bytes(values), valid)
        else:
            for lane in _lanes(values):
                _fold_words(state, lane, valid)
    return state.view(np.int64)


def _bytes(values: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    _, offsets, data = values.buffers()
    places = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4) if offsets else np.zeros(1, np.int32)
    content = np.frombuffer(data or b"", np.uint8)
    content.flags.writeable = places.flags.writeable = False
    return content, places


def _lanes(values: pa.Array) -> list[U64]:
    """The values as 64-bit words: one column of them, or two for decimals."""
    kind = values.type
    if pa.types.is_decimal128(kind):
        words = np.frombuffer(values.buffers()[1], np.uint64)[2 * values.offset : 2 * (values.offset + len(values))]
        return [np.ascontiguousarray(words[lane::2]) for lane in (0, 1)]
    if pa.types.is_floating(kind):
        numbers = np.asarray(values.fill_null(0.0), np.float64) + 0.0  # minus zero is zero
        return [numbers.view(np.uint64)]
    if pa.types.is_boolean(kind):
        return [np.asarray(values.fill_null(False)).astype(np.uint64)]
    width = np.dtype(f"i{kind.bit_width // 8}")
    words = np.frombuffer(values.buffers()[1], width)[values.offset : values.offset + len(values)]
    return [words.astype(np.int64).view(np.uint64)]


@kernel
def _mix(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> _S30)) * _MULTIPLY_A
    word = (word ^ (word >> _S27)) * _MULTIPLY_B
    return word ^ (word >> _S31)


@kernel
def _fold_words(state: U64, words: U64, valid: npt.NDArray[np.bool_]) -> None:
    for row in range(len(state)):
        state[row] = _mix((state[row] ^ words[row]) + _MULTIPLY_B) if valid[row] else _mix(state[row] + _NULL)


@kernel
def _fold_bytes(
    state: U64, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int32], valid: npt.NDArray[np.bool_]
) -> None:
    for row in range(len(state)):
        if not valid[row]:
            state[row] = _mix(state[row] + _NULL)
            continue
        first, last = offsets[row], offsets[row + 1]
        mixed = _mix((state[row] ^ np.uint64(last - first)) + _MULTIPLY_B)  # ("ab", "c") is not ("a", "bc")
        at = first
        while at < last:
            word, shift = np.uint64(0), np.uint64(0)
            for i in range(at, min(at + 8, last)):
                word |= np.uint64(data[i]) << shift
                shift += _S8
            mixed = _mix((mixed ^ word) + _MULTIPLY_B)
            at += 8
        state[row] = mixed
