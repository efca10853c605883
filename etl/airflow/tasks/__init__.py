"""Tasks of several DAGs: what one does, on the resident driver or at a site.

backlog                 shed events are reloaded
held, held_question     a person is asked about a batch whose audit failed
masters                 master pages stay fresh and small
sites                   joins and shipments at a site, results gathered at their target
"""
