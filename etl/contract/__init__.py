"""What a pipeline and a stream are, read from the files that declare them.

load           a file ──► `parsing` ──► check ──► model; every mistake with its file and line
parsing        a file's text ──► document, shape ──► build; JSON Schemas for editors
resolve        with the types that masters have; tables, evolve: what is written, and what may change later
words          the values that a file may hold
correlations   the files of streams that meet streams
drafting       a first file from what exists
"""
