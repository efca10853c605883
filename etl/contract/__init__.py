"""What a pipeline and a stream are, read from the files that declare them.

load           a file ──► document, shape ──► build ──► check ──► model; every mistake with its file and line
resolve        with the types that masters have; tables, evolve: what is written, and what may change later
words          the values that a file may hold
correlations   the files of streams that meet streams
drafting       a first file from what exists
"""
