"""Scripts and styles of others in this repository are what npm publishes: check them, or fetch them anew.

    requirements/vendored.toml ──▶ npm pack name@version ──▶ sum of the release ──▶ files, and the sum of each

    bin/vendored.py             every file has its sum, and no file lies beside them unnamed (needs no network)
    bin/vendored.py --compare   and every file is what the release holds
    bin/vendored.py --fetch     fetch the releases and write the files

A file may be given `without` a text: it is then the release's file with that text taken out, once. Which registry
answers is a matter of npm's own configuration.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
UNAVAILABLE = 69


def integrity(content: bytes) -> str:
    """A sum as npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def files_of(packages: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {file["to"]: file for package in packages for file in package["files"]}


def wrong_here(root: Path, manifest: dict[str, Any]) -> Iterator[str]:
    """What differs between the files that lie here and those that are named."""
    named = files_of(manifest["package"])
    for to, file in named.items():
        if not (root / to).is_file():
            yield f"{to} is missing"
        elif integrity((root / to).read_bytes()) != file["integrity"]:
            yield f"{to} does not have its sum"
    for folder in manifest["folders"]:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.relative_to(root).as_posix() not in named:
                yield f"{path.relative_to(root)} is named by no package"
    for package in manifest["package"]:
        if not any("licen" in Path(file["to"]).as_posix().lower() for file in package["files"]):
            yield f"{package['name']} has no licence beside it"


def released(package: dict[str, Any], scratch: Path) -> dict[str, bytes]:
    """The files of a package as its release holds them, by where they belong."""
    name = f"{package['name']}@{package['version']}"
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is not installed; install it and run this again")
    done = subprocess.run([npm, "pack", "--silent", name], cwd=scratch, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"npm does not give {name}: {done.stderr.strip()[-300:]}", file=sys.stderr)
        raise SystemExit(UNAVAILABLE)
    release = scratch / done.stdout.split()[-1]
    if integrity(release.read_bytes()) != package["integrity"]:
        raise SystemExit(f"the release {name} does not have its sum; nothing was written")
    with tarfile.open(release) as archive:
        return {file["to"]: _taken(archive, file) for file in package["files"] if "from" in file}


def _taken(archive: tarfile.TarFile, file: dict[str, Any]) -> bytes:
    member = archive.extractfile(f"package/{file['from']}")
    assert member is not None, f"{file['from']} is a file"
    content = member.read()
    without = file.get("without", "").encode()
    if without and content.count(without) != 1:
        raise SystemExit(f"{file['from']} does not have {file['without']!r} once")
    return content.replace(without, b"") if without else content


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Check vendored scripts and styles, or fetch them anew.")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--compare", action="store_true", help="also compare with what npm publishes")
    what.add_argument("--fetch", action="store_true", help="fetch the releases and write the files")
    options = parser.parse_args(arguments)
    manifest = tomllib.loads((options.root / "requirements" / "vendored.toml").read_text())
    wrong = []
    if options.compare or options.fetch:
        for package in manifest["package"]:
            with tempfile.TemporaryDirectory() as scratch:
                wrong += list(_settled(options.root, released(package, Path(scratch)), options.fetch))
    wrong += wrong_here(options.root, manifest)
    print("\n".join(wrong or [f"{len(files_of(manifest['package']))} files are what they should be"]))
    return int(bool(wrong))


def _settled(root: Path, contents: dict[str, bytes], write: bool) -> Iterator[str]:
    for to, content in contents.items():
        if write:
            (root / to).parent.mkdir(parents=True, exist_ok=True)
            (root / to).write_bytes(content)
        elif not (root / to).is_file() or (root / to).read_bytes() != content:
            yield f"{to} is not what the release holds"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
