"""The join order: a right-deep pipeline in which every step has a condition, if possible.

    a ⋈ (b ⋈ (c ⋈ d)): the innermost pair first, then one stream at a time

The innermost stream is the one written last; each next one is the nearest written before that has a condition with
those joined already, preferably an equality. Only when none has, the step is a product.
"""

from __future__ import annotations

JoinOrder = list[tuple[str, tuple[str, ...]]]  # (stream, joined before)


def join_order(aliases: list[str], conditions: list[tuple[frozenset[str], bool]]) -> JoinOrder:
    """`conditions`: the streams of each, and whether it is an equality."""
    waiting, order = aliases[:-1], JoinOrder()
    joined: tuple[str, ...] = (aliases[-1],)
    while waiting:
        chosen = max(waiting, key=lambda alias: (_strength(alias, joined, conditions), waiting.index(alias)))
        order.append((chosen, joined))
        waiting, joined = [alias for alias in waiting if alias != chosen], (chosen, *joined)
    return order


def _strength(alias: str, joined: tuple[str, ...], conditions: list[tuple[frozenset[str], bool]]) -> int:
    """2 for an equality with those joined, 1 for another condition, 0 for none."""
    shared = [equal for used, equal in conditions if alias in used and used <= {alias, *joined}]
    return (2 if any(shared) else 1) if shared else 0
