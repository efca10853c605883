"""Scripts in a Python where Airflow is at home in a folder of its own: reading DAGs leaves nothing behind in ours.

    test ── one line of JSON ──▶ a process that has imported Airflow ── fork ──▶ the script, with its words and settings
         ◀── its end, what it printed ──

Importing Airflow takes seconds, so one process does it once for all scripts of a session. Of us it imports nothing.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import Any

from etl.settings import PROJECT


def ask(script: str, home: Path, *words: str, **variables: str) -> list[str]:
    """The lines that a script prints in a Python that knows Airflow, where our home is a new folder."""
    process = _knows_airflow()
    assert process.stdin is not None, "it is a pipe"
    assert process.stdout is not None, "it is a pipe"
    order = {"script": script, "words": words, "variables": {"FRONTSTAGE_HOME": str(home), **variables}}
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert answer, "the process that knows Airflow has ended"
    code, out, said = json.loads(answer)
    assert code == 0, said
    return list(out.splitlines())


@cache
def _knows_airflow() -> subprocess.Popen[str]:
    home = tempfile.TemporaryDirectory(prefix="frontstage-airflow-")
    env = {name: value for name, value in os.environ.items() if not name.startswith("FRONTSTAGE_")}
    env |= {"AIRFLOW_HOME": home.name, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, __file__]
    process = subprocess.Popen(
        command, cwd=PROJECT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )  # fmt: skip

    def end() -> None:
        process.communicate()
        home.cleanup()

    atexit.register(end)
    return process


def _answer(order: dict[str, Any]) -> tuple[int, str, str]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
        pid = os.fork()
        if pid == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(said.fileno(), 2)
            os._exit(_run(order))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        said.seek(0)
        return code, out.read(), said.read()


def _run(order: dict[str, Any]) -> int:
    os.environ.update(order["variables"])
    sys.argv = ["-c", *order["words"]]
    try:
        exec(compile(order["script"], "<script>", "exec"), {"__name__": "__main__"})
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def main() -> None:
    import airflow.sdk  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
