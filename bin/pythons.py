"""For which Pythons the locks hold: set-up uses the first of them, or another where that one is not to be had.

    requirements/*.lock ──▶ uv resolves the same for a newer Python, wheels only ──▶ the same pins? ──▶ pythons.txt

A newer Python is listed as soon as nothing else would be installed for it than for the first, and for all before it.
`make lock` runs this
after the locks are written; which index answers is a matter of uv's own configuration.
"""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRST, NEWER = "3.11", ("3.12", "3.13", "3.14")
HEAD = "# The Pythons that the locks hold for; `make lock` writes this. Tests run with the first.\n"
_PIN = re.compile(r"^([a-z0-9._\[\]-]+==[^\s\\]+)", re.MULTILINE)
_ASKED = (("runtime.in", "runtime.lock"), ("dev.in", "dev.lock"))


def pins(text: str) -> set[str]:
    """What a lock installs."""
    return set(_PIN.findall(text))


def resolved(version: str, asked: str, lock: str) -> set[str]:
    """What the same requests, held to a lock, come to for another Python; nothing when they cannot be met."""
    command = [
        str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet", "--no-header", "--no-annotate",
        "--python-version", version, "--python-platform", "linux", "--only-binary", ":all:", "--no-binary", "pyspark",
        "-c", "bootstrap.lock", "-c", lock, asked,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT / "requirements", capture_output=True, text=True)
    return pins(done.stdout) if done.returncode == 0 else set()


def holds_for(version: str) -> bool:
    """Whether both locks are what a newer Python needs."""
    folder = ROOT / "requirements"
    return all(resolved(version, asked, lock) == pins((folder / lock).read_text()) for asked, lock in _ASKED)


def main() -> None:
    found = [FIRST, *takewhile(holds_for, NEWER)]
    (ROOT / "requirements" / "pythons.txt").write_text(HEAD + "".join(f"{one}\n" for one in found))
    print(f"the locks hold for Python {', '.join(found)}")


if __name__ == "__main__":
    main()
