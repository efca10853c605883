"""Loops over bytes, compiled: text grammars and conversions that array operations cannot express.

    utf8       is it UTF-8; write a code point
    spans      kinds of values, whitespace, copying with escapes resolved
    json_text  one object a line → span and kind of every declared field
    csv_text   one record a line → the same
    json_write values → JSON
    numbers    text → integer, decimal, double
    times      text → date, timestamp

Every kernel takes bytes from outside: no index is used before it was compared with the end of its line.
"""
