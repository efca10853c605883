"""The run report of one micro-batch, as an HTML page and as JSON.

    RunReport ──► page.render ──► one self-contained HTML page
        └───────► folder.write ─► <batch>/index.html, <batch>/report.json, latest.json, index.html

Values in, text out: nothing here talks to Spark, to a database or to the network.
"""
