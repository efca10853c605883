"""What Airflow runs: a DAG per declared pipeline, the DAGs that keep house, and the trigger that sees events arrive.

dags/       DAGs as functions of what is declared      tasks/      what their tasks do
triggers/   events have landed: a run starts           page/       the Frontstage page behind Airflow's login
plugin      what is added to an Airflow: that page     all_dags    every DAG of ours for somebody else's Airflow
freshness   a run that is not done in time is told     notify      who is told
"""
