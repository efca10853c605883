"""The run report: what one micro-batch did, as a page to look at and as JSON to read by program.

    RunReport ──► page.render ──► one self-contained HTML page
        └───────► folder.write ─► <batch>/index.html, <batch>/report.json, latest.json, index.html

Values in, text out: nothing here talks to Spark, to a database or to the network.
"""
