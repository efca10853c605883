"""Rows of masters, in memory and in files.

shape       columns and key of a store
key_codec   keys as sortable codes, used for all sorting and searching
"""
