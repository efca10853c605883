"""The Frontstage page: is the warehouse fresh, complete and correct, and if not, why? What people may do about it.

    request ─▶ app (who is it, what may they see) ─▶ views ─▶ queries (ledger, read only) ─▶ templates ─▶ HTML
                                                       └─▶ actions: confirmed, then a run of a DAG

The page knows no Airflow: who is asking, what they may do and how a run is started is `ports.Access`, which
`etl.airflow.page.access` implements. Invariants: nothing is read for somebody who may not start the pipeline's runs
(ADR 79); nothing changes but by a run of a DAG that a person has confirmed; every link is relative, so the page works
behind any prefix; no request leaves the server it came from.

To add something: a page is a router in `app.SECTIONS`, a kind of correlation a function in `panels.PANELS`, something
to do an entry in `actions.ACTIONS`.
"""
