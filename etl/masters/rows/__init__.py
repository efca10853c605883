"""Rows of masters, outside and in files.

shape       columns and key of a store: what it takes, what it gives
key_codec   keys as sortable codes: all order and all search happen on them
"""
