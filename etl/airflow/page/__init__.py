"""The Frontstage page in Airflow: where it is, the links that tasks carry to it, and who may see what."""
