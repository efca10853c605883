"""What Airflow runs: a DAG per declared pipeline, the DAGs that keep house, and the trigger that sees events arrive."""
