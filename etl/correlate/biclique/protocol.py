"""The order-consistent protocol, message by message: why it is needed, and that it works (section 3.2.3, figure 4).

    dispatcher ──message, after any delay──► unit
        join message   probes the unit's stored tuples, then is dropped
        store message  is stored

If two tuples reach two units in different orders, their pair is missed by both units, or produced twice. With the
protocol a unit buffers messages and processes them in the order (clock, dispatcher) up to the smallest clock that every
dispatcher has signalled; channels are FIFO, so nothing older can follow a signal. Micro-batches are the same protocol
with one signal, the batch's end.

This is a model for tests and documents: a loop over messages, not an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from etl.correlate.model import Side, opposite

Pair = tuple[int, int]  # numbers of a left and a right tuple


@dataclass(frozen=True, slots=True)
class Arrival:
    """A tuple that reaches a dispatcher: dispatcher, stream, key, and the unit of its own side that stores it."""

    dispatcher: int
    side: Side
    key: int
    unit: int


@dataclass(frozen=True, slots=True)
class Message:
    """To one unit. `number` is the tuple's, -1 for a signal."""

    side: Side  # of the unit
    unit: int
    dispatcher: int
    clock: int
    number: int
    stores: bool
    key: int


@dataclass(slots=True)
class Unit:
    side: Side
    ordered: bool
    stored: list[Message] = field(default_factory=list)
    waiting: list[Message] = field(default_factory=list)
    signals: dict[int, int] = field(default_factory=dict)

    def receive(self, message: Message, dispatchers: int) -> list[Pair]:
        if not self.ordered:
            return [] if message.number < 0 else self._process(message)
        if message.number >= 0:
            self.waiting.append(message)
            return []
        self.signals[message.dispatcher] = message.clock
        safe = min((self.signals.get(dispatcher, -1) for dispatcher in range(dispatchers)), default=-1)
        ready = sorted((one for one in self.waiting if one.clock <= safe), key=lambda one: (one.clock, one.dispatcher))
        self.waiting = [one for one in self.waiting if one.clock > safe]
        return [pair for one in ready for pair in self._process(one)]

    def _process(self, message: Message) -> list[Pair]:
        if message.stores:
            self.stored.append(message)
            return []
        met = [one.number for one in self.stored if one.key == message.key]
        return [(one, message.number) if self.side == "left" else (message.number, one) for one in met]


def send(arrivals: Sequence[Arrival], dispatchers: int, units: dict[Side, int], signal_every: int) -> list[Message]:
    """All messages in the order they are sent; every dispatcher signals its clock periodically, and at the end."""
    clocks = [0] * dispatchers
    messages: list[Message] = []
    for number, arrival in enumerate(arrivals):
        clocks[arrival.dispatcher] += 1
        clock, dispatcher = clocks[arrival.dispatcher], arrival.dispatcher
        other = opposite(arrival.side)
        messages.append(Message(arrival.side, arrival.unit, dispatcher, clock, number, True, arrival.key))
        messages += [
            Message(other, unit, dispatcher, clock, number, False, arrival.key) for unit in range(units[other])
        ]
        if clock % signal_every == 0:
            messages += _signals(dispatcher, clock, units)
    for dispatcher in range(dispatchers):
        messages += _signals(dispatcher, max(clocks) + 1, units)
    return messages


def _signals(dispatcher: int, clock: int, units: dict[Side, int]) -> list[Message]:
    return [Message(side, unit, dispatcher, clock, -1, False, 0) for side in units for unit in range(units[side])]


def deliver(messages: Sequence[Message], delays: Sequence[int], *, fifo: bool) -> list[Message]:
    """Messages in the order of arrival; message i takes `delays[i]`; fifo: no overtaking within a channel."""
    latest: dict[tuple[int, Side, int], int] = {}
    arrived = []
    for sent, (message, delay) in enumerate(zip(messages, delays, strict=True)):
        channel = message.dispatcher, message.side, message.unit
        at = sent + delay
        if fifo:
            at = max(at, latest.get(channel, 0))
            latest[channel] = at
        arrived.append((at, sent, message))
    return [message for _, _, message in sorted(arrived, key=lambda one: one[:2])]


def simulate(
    arrivals: Sequence[Arrival],
    delays: Sequence[int],
    *,
    dispatchers: int,
    units: dict[Side, int],
    ordered: bool,
    signal_every: int = 4,
) -> list[Pair]:
    """The pairs of all units. `delays` are truncated or repeated to the number of messages."""
    messages = send(arrivals, dispatchers, units, signal_every)
    stretched = [delays[i % len(delays)] for i in range(len(messages))] if delays else [0] * len(messages)
    machines = {(side, unit): Unit(side, ordered) for side in units for unit in range(units[side])}
    pairs: list[Pair] = []
    for message in deliver(messages, stretched, fifo=ordered):
        pairs += machines[message.side, message.unit].receive(message, dispatchers)
    return pairs
