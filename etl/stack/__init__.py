"""The local stack: embedded Postgres, Airflow's processes, the resident Spark driver.

    supervisor ──┬─ guard ── postgres          one guard per service; a guard adopts whatever its service
    (this user's │                             leaves behind and ends all of it when the supervisor is gone
     command, or ├─ guard ── spark driver
     a daemon)   ├─ guard ── api-server
                 ├─ guard ── scheduler ── task ── ...
                 ├─ guard ── dag-processor
                 └─ guard ── triggerer

`stack`        all of it, as one context manager           `postgres`  the embedded server and the DSNs
`daemon`       the same in the background: up, down        `cluster`   the files of the embedded server
`state`        the record of a running stack               `os_account`  the account of Postgres when we are root
`supervision`  guards, restarts, cleanup after crashes
`airflow`      Airflow's processes and REST client         `doctor`    is this machine fit for it? (`preflight`)
`environment`, `credentials`   the environment of our processes; the stack's own secrets
"""
