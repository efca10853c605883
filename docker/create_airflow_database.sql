-- Airflow's metadata has a database of its own beside ours, which the image creates from POSTGRES_DB.
CREATE DATABASE airflow;
