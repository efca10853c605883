"""From the text of a file to values of ours, and every mistake on its line.

document   the shape of a file, for pydantic        schema   the same as JSON Schema, for editors
shape      the first check of a file                locate   the line on which a value is declared
build      a document ──► a `Pipeline`              fields   fields of an event, and the rules that follow from them
"""
