"""`make faults`: every fault, one line each; last line `N passed, M failed`.

What needs neither Spark nor the stack runs in as many processes as there are cores, then the rest, one at a time.
"""

from __future__ import annotations

import re
import subprocess
import sys

PATHS = (
    "tests/faults",
    "tests/pipeline/test_faults.py",
    "tests/pipeline/test_unreadable.py",
    "tests/pipeline/test_unlistable.py",
    "tests/pipeline/test_poison.py",
    "tests/pipeline/test_poison_together.py",
    "tests/pipeline/test_restore.py",
    "tests/streams/test_faults.py",
)
HALVES = (("not spark and not stack", "-n", "auto"), ("spark or stack",))


def main(arguments: list[str]) -> int:
    passed = failed = 0
    for marks, *how in HALVES:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.support.one_line",
            "-m",
            marks,
            *how,
            *PATHS,
            *arguments,
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as half:
            assert half.stdout is not None, "it is a pipe"
            for line in half.stdout:
                total = re.fullmatch(r"(\d+) passed, (\d+) failed\n", line)
                if total:
                    passed, failed = passed + int(total[1]), failed + int(total[2])
                else:
                    print(line, end="", flush=True)
        if half.returncode not in (0, 1, 5):  # 5: the arguments chose no case of this half
            failed += 1
            print(f"FAILED  pytest ended with code {half.returncode}")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
