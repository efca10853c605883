"""From the text of a file to a pipeline, and all mistakes with their lines.

document   the schema of a file, for pydantic       schema   the same as JSON Schema, for editors
shape      the first check of a file                locate   the line of a value
build      a document ──► a `Pipeline`              fields   fields of an event, and the rules that follow from them
"""
