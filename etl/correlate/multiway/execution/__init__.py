"""Execution of a plan over folders: steps with immutable output files, so that a repeat changes nothing."""
