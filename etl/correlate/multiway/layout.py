"""The columns of a shipped tuple: only those that later joins and the result need.

    start        when the newest member arrived (microseconds)
    end          until when all members are in their windows; omitted for a single stream with a time window
    seq.S        the number of the member of S in S, if S has a tuple window (whose end is known only later)
    key.A        the value of attribute A, while some other stream is still to be joined on it
    S.column     the columns of the result

The columns depend only on the set of streams that are joined, and so does the size of a tuple.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from etl.correlate.multiway.query import JoinQuery, TupleWindow, bits
from etl.correlate.multiway.statistics import StreamStatistics

START, END = "start", "end"
FOREVER = 2**62


def key(attribute: int) -> str:
    return f"key.{attribute}"


def sequence(stream: int) -> str:
    return f"seq.{stream}"


def shown(stream: str, column: str) -> str:
    return f"{stream}.{column}"


def counted(query: JoinQuery, streams: int) -> list[int]:
    """The members with a tuple window."""
    return [i for i in bits(streams) if isinstance(query.streams[i].window, TupleWindow)]


def carries_end(streams: int) -> bool:
    return streams & (streams - 1) != 0


def key_types(query: JoinQuery, streams: int) -> dict[int, pa.DataType]:
    """The open attributes and the types of their columns."""
    return {n: key_type(query, n) for n in query.open_attributes(streams)}


def key_type(query: JoinQuery, attribute: int) -> pa.DataType:
    """Integers of several sizes become int64, text becomes string; other types are the same in all streams."""
    columns = query.attributes[attribute].columns
    kinds = {query.streams[i].schema.field(column).type for i, column in columns.items()}
    if len(kinds) == 1:
        return kinds.pop()
    return pa.int64() if all(pa.types.is_integer(kind) for kind in kinds) else pa.string()


def schema(query: JoinQuery, streams: int) -> pa.Schema:
    """The columns of a joined tuple."""
    fields = [pa.field(START, pa.int64())]
    if carries_end(streams):
        fields.append(pa.field(END, pa.int64()))
    fields += [pa.field(sequence(i), pa.int64()) for i in counted(query, streams)]
    fields += [pa.field(key(n), kind) for n, kind in key_types(query, streams).items()]
    for i in bits(streams):
        stream = query.streams[i]
        fields += [pa.field(shown(stream.name, name), stream.schema.field(name).type) for name in stream.columns]
    return pa.schema(fields)


def size_bytes(query: JoinQuery, statistics: Sequence[StreamStatistics], streams: int) -> float:
    """The average size of a joined tuple in an Arrow file, without the file's header."""
    size = 8.0 * (1 + carries_end(streams) + len(counted(query, streams)))
    for attribute, kind in key_types(query, streams).items():
        member = next(bits(query.attributes[attribute].members & streams))
        column = query.attributes[attribute].columns[member]
        size += _width(kind, statistics[member], column)
    for i in bits(streams):
        stream = query.streams[i]
        size += sum(_width(stream.schema.field(name).type, statistics[i], name) for name in stream.columns)
    return size


def _width(kind: pa.DataType, known: StreamStatistics, column: str) -> float:
    try:
        return float(kind.bit_width) / 8
    except ValueError:  # text and other types of varying length
        return known.width_bytes(column)
