"""Runs: the immutable sorted files that master pages consist of.

layout     segments, pages, checksums            writer    sorted rows in, two durable files out
run        a mapped run, read page by page       sorting   external merge sort
verified   which pages have passed their checksum, shared by the processes of a machine (ADR 18)
"""
