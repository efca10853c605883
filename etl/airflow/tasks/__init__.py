"""Tasks of several DAGs, run on the resident driver or at a site.

backlog                 shed events are reloaded
held, held_question     ask a person about a batch whose audit failed
masters                 master pages stay fresh and small
sites                   joins and shipments at a site, results gathered at their target
"""
