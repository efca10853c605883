"""The Frontstage page: is the warehouse fresh, complete and correct, and if not, why? With actions for people.

    request ─▶ app (who is it, what may they see) ─▶ views ─▶ queries (ledger, read only) ─▶ templates ─▶ HTML
                                                       └─▶ actions: confirmed, then a run of a DAG

The page does not depend on Airflow: authentication, permissions and starting runs are behind `ports.Access`, which
`etl.airflow.page.access` implements. Invariants: nothing is read for a user who may not start the pipeline's runs
(ADR 79); changes are made only by a run of a DAG that a person has confirmed; every link is relative, so the page works
behind any prefix; pages load nothing from other servers.

To extend: a page is a router in `app.SECTIONS`, a kind of correlation a function in `panels.PANELS`, an action an entry
in `actions.ACTIONS`.
"""
