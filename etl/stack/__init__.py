"""What a laptop needs to run Frontstage: embedded Postgres, Airflow's processes, the resident Spark driver.

    supervisor ──┬─ guard ── postgres          one guard per service; a guard adopts whatever its service
    (this user's │                             leaves behind and ends it all when the supervisor is gone
     command, or ├─ guard ── spark driver
     a daemon)   ├─ guard ── api-server
                 ├─ guard ── scheduler ── task ── ...
                 ├─ guard ── dag-processor
                 └─ guard ── triggerer

`stack`        all of it, as one context manager           `postgres`  the embedded server and the DSNs
`daemon`       the same in the background: up, down        `cluster`   the files of the embedded server
`state`        what a stack writes down about itself       `os_account`  whom they belong to when we are root
`supervision`  guards, what ended is started again, sweeping
`airflow`      Airflow's processes and REST client         `doctor`    is this machine fit for it? (`preflight`)
`environment`, `credentials`   what processes of ours find there; the stack's own secrets
"""
