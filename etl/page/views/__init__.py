"""The pages, a router for each part: thin, from a question to values to a template."""
