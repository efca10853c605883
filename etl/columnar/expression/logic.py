"""Truth: comparisons, and/or/not, NULL, in, between, case, coalesce, greatest, with SQL's three values.

`NULL and false` is false, `NULL or true` is true, any other comparison with NULL is NULL. NaN follows IEEE: it equals
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from etl.columnar.expression import types
from etl.columnar.expression.compiler import Compiler, Handler
from etl.columnar.expression.node import Datum, Node, constant, on_arrays

_COMPARE: dict[type[exp.Expr], Callable[[Datum, Datum], Datum]] = {
    exp.EQ: pc.equal, exp.NEQ: pc.not_equal, exp.LT: pc.less, exp.LTE: pc.less_equal, exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}  # fmt: skip
_CONNECT = {exp.And: pc.and_kleene, exp.Or: pc.or_kleene}


def compare(compiler: Compiler, tree: exp.Binary) -> Node:
    left, right = comparable(compiler, tree, compiler.nodes([tree.this, tree.expression]))
    return compiler.total(pa.bool_(), [left, right], _COMPARE[type(tree)])


def comparable(compiler: Compiler, tree: exp.Expr, nodes: Sequence[Node]) -> list[Node]:
    """Nodes that can be compared, as one type; decimals get room for all digits of both."""
    if any(pa.types.is_decimal(node.type) for node in nodes) and not any(
        pa.types.is_floating(node.type) for node in nodes
    ):
        return _decimals(compiler, tree, nodes)
    same = compiler.same_type(tree, nodes)
    return [compiler.cast(tree, node, pa.int64()) if pa.types.is_null(node.type) else node for node in same]


def _decimals(compiler: Compiler, tree: exp.Expr, nodes: Sequence[Node]) -> list[Node]:
    for node in nodes:
        if not (types.is_number(node.type) or pa.types.is_null(node.type)):
            compiler.refuse(tree, f"a number and {node.type} do not compare")
    exact = [types.as_decimal(node) for node in nodes if not pa.types.is_null(node.type)]
    scale = max(one.scale for one in exact)
    digits = max(one.precision - one.scale for one in exact) + scale
    wanted = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(76, scale)

    def widened(node: Node) -> Node:
        if pa.types.is_null(node.type) or node.type == wanted:
            return compiler.cast(tree, node, wanted)
        if pa.types.is_integer(node.type):
            own = types.as_decimal(node)
            wide = pa.decimal128(max(own.precision, 19), 0)
            return compiler.total(wanted, [node], lambda array: array.cast(pa.int64()).cast(wide).cast(wanted))
        return compiler.total(wanted, [node], lambda array: array.cast(wanted))

    return [widened(node) for node in nodes]


def condition(compiler: Compiler, tree: exp.Expr) -> Node:
    """A part that must be true or false."""
    node = compiler.node(tree)
    if pa.types.is_null(node.type):
        return compiler.cast(tree, node, pa.bool_())
    if not pa.types.is_boolean(node.type):
        compiler.refuse(tree, f"`{tree.sql(dialect='spark')}` is {node.type}, a condition is needed")
    return node


def connect(compiler: Compiler, tree: exp.Connector) -> Node:
    both = [condition(compiler, part) for part in (tree.this, tree.expression)]
    return compiler.total(pa.bool_(), both, _CONNECT[type(tree)])


def negate(compiler: Compiler, tree: exp.Not) -> Node:
    return inverted(compiler, condition(compiler, tree.this))


def inverted(compiler: Compiler, node: Node) -> Node:
    return compiler.total(pa.bool_(), [node], pc.invert)


def is_(compiler: Compiler, tree: exp.Is) -> Node:
    """is null, is true, is false: never NULL themselves."""
    if isinstance(tree.expression, exp.Null):
        return compiler.total(pa.bool_(), [compiler.node(tree.this)], pc.is_null)
    wanted = pa.scalar(bool(tree.expression.this))
    node = condition(compiler, tree.this)
    return compiler.total(pa.bool_(), [node], lambda datum: _known(pc.equal(datum, wanted)))


def _known(datum: Datum) -> Datum:
    """NULL as false."""
    return pc.fill_null(datum, False)


def null_safe(compiler: Compiler, tree: exp.NullSafeEQ) -> Node:
    left, right = comparable(compiler, tree, compiler.nodes([tree.this, tree.expression]))
    same = lambda a, b: pc.or_(_known(pc.equal(a, b)), pc.and_(pc.is_null(a), pc.is_null(b)))  # noqa: E731
    return compiler.total(pa.bool_(), [left, right], same)


def between(compiler: Compiler, tree: exp.Between) -> Node:
    value = tree.this
    ends = [exp.GTE(this=value, expression=tree.args["low"]), exp.LTE(this=value, expression=tree.args["high"])]
    return compiler.total(pa.bool_(), compiler.nodes(ends), pc.and_kleene)


def in_list(compiler: Compiler, tree: exp.In) -> Node:
    if not tree.expressions:
        compiler.refuse(tree, "`in` takes a list of values, not a query")
    value, *choices = comparable(compiler, tree, compiler.nodes([tree.this, *tree.expressions]))
    if any(choice.literal is None for choice in choices) or pa.types.is_decimal256(value.type):
        equals = [compiler.total(pa.bool_(), [value, choice], pc.equal) for choice in choices]
        return compiler.total(pa.bool_(), equals, lambda *found: reduce(pc.or_kleene, found))
    scalars = [choice.evaluate({}) for choice in choices]
    known = pa.array([scalar.as_py() for scalar in scalars if scalar.is_valid], value.type)
    unknown = len(known) < len(scalars)

    def apply(array: pa.Array) -> pa.Array:
        found = pc.is_in(array, value_set=known)
        certain = found if unknown else pa.repeat(pa.scalar(True), len(array))
        return pc.if_else(pc.and_(certain, array.is_valid()), found, pa.scalar(None, pa.bool_()))

    return compiler.total(pa.bool_(), [value], on_arrays(apply))


def case(compiler: Compiler, tree: exp.Case) -> Node:
    """The first branch whose condition is true; NULL is not true."""
    branches: list[exp.If] = tree.args["ifs"]
    subject: exp.Expr | None = tree.this
    tests = [branch.this if subject is None else exp.EQ(this=subject, expression=branch.this) for branch in branches]
    conditions = [condition(compiler, test) for test in tests]
    return _choose(compiler, tree, conditions, [branch.args["true"] for branch in branches], tree.args.get("default"))


def if_(compiler: Compiler, tree: exp.If) -> Node:
    return _choose(
        compiler, tree, [condition(compiler, tree.this)], [tree.args["true"]], tree.args.get("false")
    )  # fmt: skip


def _choose(
    compiler: Compiler, tree: exp.Expr, tests: list[Node], results: list[exp.Expr], default: exp.Expr | None
) -> Node:
    nodes = compiler.nodes(results)
    nodes.append(constant(None, nodes[0].type) if default is None else compiler.node(default))
    nodes = compiler.same_type(tree, nodes)
    count = len(tests)

    def apply(*data: pa.Array) -> pa.Array:
        conditions = pa.StructArray.from_arrays([_known(test) for test in data[:count]], [str(i) for i in range(count)])
        return pc.case_when(conditions, *data[count:])

    return compiler.total(nodes[0].type, [*tests, *nodes], on_arrays(apply))


def coalesce(compiler: Compiler, tree: exp.Coalesce) -> Node:
    nodes = compiler.same_type(tree, compiler.nodes([tree.this, *tree.expressions]))
    return compiler.total(nodes[0].type, nodes, on_arrays(pc.coalesce))


def null_if(compiler: Compiler, tree: exp.Nullif) -> Node:
    value, other = compiler.nodes([tree.this, tree.expression])
    equal = comparable(compiler, tree, [value, other])
    nothing = pa.scalar(None, value.type)
    apply = on_arrays(lambda kept, a, b: pc.if_else(_known(pc.equal(a, b)), nothing, kept))
    return compiler.total(value.type, [value, *equal], apply)


def extreme(compiler: Compiler, tree: exp.Greatest | exp.Least) -> Node:
    """Without the NULLs among the arguments."""
    nodes = compiler.same_type(tree, compiler.nodes([tree.this, *tree.expressions]))
    if pa.types.is_boolean(nodes[0].type):
        compiler.refuse(tree, "greatest() and least() do not compare booleans")
    choose = pc.max_element_wise if isinstance(tree, exp.Greatest) else pc.min_element_wise
    return compiler.total(nodes[0].type, nodes, on_arrays(lambda *data: choose(*data, skip_nulls=True)))


HANDLERS: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_COMPARE, compare), **dict.fromkeys(_CONNECT, connect),
    exp.Not: negate, exp.Is: is_, exp.NullSafeEQ: null_safe, exp.Between: between, exp.In: in_list, exp.Case: case,
    exp.If: if_, exp.Coalesce: coalesce, exp.Nullif: null_if, exp.Greatest: extreme, exp.Least: extreme,
}  # fmt: skip
