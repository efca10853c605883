"""The varieties of dirty lines, by name.

A dirty line starts from a good order's fields, so it carries an order id of its own wherever it can, and no
two lines are alike by accident. A line never holds a line break (LF or CR): one in, one counted.

`MALFORMED`     what no JSON reader takes for one object
`OUT_OF_RANGE`  an object, with one thing wrong in it

This is the one place that works line by line: dirt is rare, and varied.
"""

from __future__ import annotations

from collections.abc import Callable

Fields = dict[str, str]
"""An order's fields as JSON tokens, in the order written: `7` for an id, `"2026-…Z"` quoted for a time."""

Spoil = Callable[[Fields, int], bytes]
"""Takes good fields and a draw for the choices within a variety; returns the line without its end."""


def rendered(fields: Fields) -> bytes:
    """The fields as one JSON object."""
    return ("{" + ",".join(f'"{name}":{token}' for name, token in fields.items()) + "}").encode()


def _truncated(fields: Fields, draw: int) -> bytes:
    # Never before the end of the order id, so that no two such lines are the same.
    whole = rendered(fields)
    least = whole.index(b",")
    return whole[: least + draw % (len(whole) - least)]


def _not_json(fields: Fields, draw: int) -> bytes:
    return f"WARN upstream timed out after order {fields['order_id']}, retry {draw % 10}".encode()


def _array(fields: Fields, _draw: int) -> bytes:
    return ("[" + ",".join(fields.values()) + "]").encode()


def _glued(fields: Fields, _draw: int) -> bytes:
    # Two objects on one line: a lenient reader takes the first and loses the second.
    return rendered(fields) + rendered(fields)


def _trailing_comma(fields: Fields, _draw: int) -> bytes:
    return rendered(fields)[:-1] + b",}"


def _binary(fields: Fields, draw: int) -> bytes:
    return b"\x1f\x8b\x08\x00" + fields["order_id"].encode() + bytes(128 + (draw >> shift) % 128 for shift in range(24))


def _negative_quantity(fields: Fields, _draw: int) -> bytes:
    return _with(fields, quantity=f"-{fields['quantity']}")


def _zero_quantity(fields: Fields, _draw: int) -> bytes:
    return _with(fields, quantity="0")


def _future_date(fields: Fields, _draw: int) -> bytes:
    return _with(fields, ordered_at='"2999' + fields["ordered_at"][5:])


def _date_of_1819(fields: Fields, draw: int) -> bytes:
    return _with(fields, ordered_at=f'"1819-{1 + draw % 12:02}-11{fields["ordered_at"][11:]}')


def _nan_price(fields: Fields, _draw: int) -> bytes:
    return _with(fields, unit_price="NaN")


def _huge_number(fields: Fields, draw: int) -> bytes:
    name, token = (("unit_price", "1e400"), ("quantity", "1" + "0" * 30), ("customer_id", "9" * 30))[draw % 3]
    return _with(fields, **{name: token})


def _missing_field(fields: Fields, draw: int) -> bytes:
    gone = list(fields)[draw % len(fields)]
    return rendered({name: token for name, token in fields.items() if name != gone})


def _null_key(fields: Fields, draw: int) -> bytes:
    return _with(fields, **{("order_id", "customer_id", "product_id")[draw % 3]: "null"})


def _bad_utf8(fields: Fields, draw: int) -> bytes:
    if draw % 2:
        return rendered(fields)[:-3] + b'\xff\xfe"}'  # inside the time
    return rendered(fields)[:-1] + b',"note":"caf\xe9"}'  # Latin-1 in an undeclared field: the rest is good


def _text_for_number(fields: Fields, draw: int) -> bytes:
    name, token = (("quantity", '"three"'), ("unit_price", '"12,50 EUR"'), ("product_id", '"P-17"'))[draw % 3]
    return _with(fields, **{name: token})


def _with(fields: Fields, **changed: str) -> bytes:
    return rendered(fields | changed)


MALFORMED: dict[str, Spoil] = {
    "truncated": _truncated,
    "not_json": _not_json,
    "array": _array,
    "glued": _glued,
    "trailing_comma": _trailing_comma,
    "binary": _binary,
}

OUT_OF_RANGE: dict[str, Spoil] = {
    "negative_quantity": _negative_quantity,
    "zero_quantity": _zero_quantity,
    "future_date": _future_date,
    "date_of_1819": _date_of_1819,
    "nan_price": _nan_price,
    "huge_number": _huge_number,
    "missing_field": _missing_field,
    "null_key": _null_key,
    "bad_utf8": _bad_utf8,
    "text_for_number": _text_for_number,
}
