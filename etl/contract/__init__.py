"""Pipelines, streams and correlations as frozen values, read from their files.

load           a file ──► `parsing` ──► check ──► model; every mistake with its file and line
parsing        a file's text ──► document, shape ──► build; JSON Schemas for editors
resolve        with the types that masters have; tables, evolve: what is written, and what may change later
words          the kinds of values in a file
correlations   the files of streams and correlations
drafting       a first file from sample events and existing tables
"""
