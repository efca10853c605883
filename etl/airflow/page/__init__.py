"""The Frontstage page in Airflow: its address, links from tasks to it, and access control."""
