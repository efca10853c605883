"""The Airflow integration: a DAG per declared pipeline, maintenance DAGs, and the triggers for arriving events.

dags/       DAGs as functions of the declarations      tasks/      the work of their tasks
triggers/   start runs when events have landed         page/       the Frontstage page behind Airflow's login
plugin      the Airflow plugin that adds the page      all_dags    all of our DAGs for an existing Airflow
freshness   alerts for runs that are not done in time  notify      the notifiers of alerts and digests
dag_files/  the DAG files: a link to the checkout's `dags/`; a wheel contains the files themselves
"""
