"""Runs: the immutable, sorted files of master pages.

layout     segments, pages, checksums            writer    sorted rows in, two durable files out
run        a mapped run, read page by page       sorting   external merge sort
verified   which pages have passed their checksum, shared by the processes of a machine (ADR 18)
"""
