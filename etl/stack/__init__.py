"""What a laptop needs to run Frontstage: embedded Postgres, Airflow's processes, the resident Spark driver.

    supervisor ──┬─ guard ── postgres          one guard per service; a guard adopts whatever its service
    (this user's │                             leaves behind and ends it all when the supervisor is gone
     command, or ├─ guard ── spark driver
     a daemon)   ├─ guard ── api-server
                 ├─ guard ── scheduler ── task ── ...
                 ├─ guard ── dag-processor
                 └─ guard ── triggerer

`postgres`   the embedded server and the DSNs          `stack`    all of it, as one context manager
`airflow`    Airflow's environment and REST client      `daemon`   the same in the background: up, down, state
`processes`  services under guards, the lock, sweeping  `doctor`   is this machine fit for it?
`supervisor` starts again what ended                    `seed`     the first schema and rows of a database
"""
