"""The benchmark of ad-hoc joins: workloads as the paper describes them, and runs in this process."""
