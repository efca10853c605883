"""Input that tasks do not survive: found by trying parts of it, refused, or left for a later batch.

trial      a batch whose tasks can be tried on all of its input, or on some
tries      tries that are counted before they begin
lines      lines that kill by themselves
together   input that kills only as a whole
later      what is cut off a batch and left for a later one
"""
