"""The report of one micro-batch of correlations: input, results, state of units, scaling.

result of a batch (a dict) ──► model.BatchReport ──► page.render ──► one self-contained HTML page
    └── folder.write ──► <batch>/index.html, <batch>/report.json, latest.json, index.html
"""
