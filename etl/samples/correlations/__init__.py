"""Example data for correlations: orders, payments and shipments of a shop's afternoon, and the expected results.

    config ──► history   every event with the moment it happened and the moment it arrives
                  └──► waves    lines of JSON by arrival, with repeated and dirty ones ──► landing
    raw      landed files, read independently      ──┐
    oracle   the correlations' SQL in DuckDB      ──┴──► rows, pairs and late tuples to compare with

Events are a pure function of the configuration: the same seed gives the same bytes. The oracle shares no code with
`etl.correlate`.
"""
