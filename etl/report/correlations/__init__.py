"""The report of one micro-batch of correlations: what came in, what met, what each unit holds, and what changed.

result of a batch (a dict) ──► model.BatchReport ──► page.render ──► one self-contained HTML page
    └── folder.write ──► <batch>/index.html, <batch>/report.json, latest.json, index.html
"""
