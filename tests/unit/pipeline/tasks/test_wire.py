"""What crosses between tasks and driver: rows whole, sentences and their kind, and nothing that could run."""

from __future__ import annotations

import pyarrow as pa
import pytest

from etl.errors import Busy, TerminalError
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.wire import Message, WorkerFailed, WorkerRefused


def test_messages_survive_spark_as_they_are() -> None:
    rows = pa.RecordBatch.from_pydict({"x": [1, None], "y": [b"\xff", b""]})
    sent = [
        wire.rows_message(rows, 3),
        wire.json_message("slice", {"ordinal": 1}),
        Message("notes", b"\x00", "customer"),
    ]
    batch = wire.to_batch(sent)
    assert batch.schema == wire.SHUFFLED
    assert batch.column("part").to_pylist() == [3, 0, 0]
    first, second, third = wire.from_batch(batch)
    assert wire.rows_of(first).to_batches() == [rows]
    assert second.json() == {"ordinal": 1}
    assert (third.kind, third.name, bytes(third.payload)) == ("notes", "customer", b"\x00")


@pytest.mark.parametrize(("error", "kind"), [(TerminalError("it's broken"), WorkerFailed), (Busy("x"), WorkerRefused)])
def test_an_error_keeps_its_kind_and_its_words(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised:
        wire.raise_error(wire.error_message(error))
    assert str(raised.value) == str(error)
