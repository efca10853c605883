"""Decisions of people: on refused lines, failed audits, days to reprocess, and the settings of one run."""
