"""`bin/setup` in trees of its own: every failure is one sentence and leaves nothing that looks finished.

The downloads themselves are shown by `make test` in a fresh clone; here a stand-in takes the place of
programs of the machine (`df`, `java`, `id`) and of the download of the jars, never of our own steps.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from etl.settings import PROJECT
from etl.stack import doctor

pytestmark = pytest.mark.slow

UNAVAILABLE = 69
TOOLS = [
    "awk",
    "bash",
    "cat",
    "cp",
    "cut",
    "df",
    "dirname",
    "env",
    "flock",
    "grep",
    "head",
    "id",
    "mkdir",
    "mv",
    "paste",
    "rm",
    "sed",
    "sha256sum",
    "tail",
]


class Tree:
    """A checkout with nothing but what `bin/setup` reads, and a PATH with nothing but the tools it names."""

    def __init__(self, root: Path) -> None:
        self.root, self.path = root / "checkout", root / "path"
        self.path.mkdir()
        for tool in TOOLS:
            (self.path / tool).symlink_to(shutil.which(tool) or tool)
        for part in ("bin/setup", "pyproject.toml", "requirements", "etl/stack/jars.sha256"):
            source, target = PROJECT / part, self.root / part
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        self.stand_in("java", "echo 'openjdk version \"17.0.1\" 2021-10-19' >&2")
        self.stand_in("python3.11", f'exec {sys.executable} "$@"')

    def stand_in(self, tool: str, script: str) -> None:
        file = self.path / tool
        file.unlink(missing_ok=True)
        file.write_text(f"#!{shutil.which('bash')}\n{script}\n")
        file.chmod(0o755)

    def run(self, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv or ("bin/setup",),
            cwd=self.root,
            env={"PATH": str(self.path), "HOME": str(self.root), **environ},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def call(self, functions: str) -> subprocess.CompletedProcess[str]:
        """Run functions of bin/setup without the rest of it."""
        return self.run("bash", "-c", f"source bin/setup; mkdir -p var/log; {functions}")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def the_sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == UNAVAILABLE, done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_an_unknown_option_is_refused_with_what_is_allowed(tree: Tree) -> None:
    assert "--with-browser" in the_sentence(tree.run("bin/setup", "--quick"))


def test_another_python_gets_one_sentence_and_no_environment(tree: Tree) -> None:
    (tree.path / "python3.11").unlink()
    tree.stand_in("python3", '[ "$1" = --version ] && echo Python 3.14.4 || exit 1')
    sentence = the_sentence(tree.run())
    assert "Python 3.11 is needed" in sentence
    assert "Python 3.14.4" in sentence
    assert not (tree.root / ".venv").exists()


def test_where_there_is_no_python_3_11_uv_fetches_one(tree: Tree) -> None:
    (tree.path / "python3.11").unlink()
    fetched = tree.root / "fetched"
    tree.stand_in(
        "uv",
        f'if [ "$2" = install ]; then ln -s {sys.executable} {fetched}; else echo {fetched}; fi',
    )
    (tree.path / "ln").symlink_to(shutil.which("ln") or "ln")
    found = tree.call('find_python; echo "$python"')
    assert found.stdout.splitlines()[-1] == str(fetched)
    assert "uv fetches one" in found.stdout


def newer(tree: Tree) -> None:
    """The only Python is a newer one, for which the locks hold."""
    (tree.path / "python3.11").unlink()
    tree.stand_in("python3", 'if [ "$1" = -c ]; then echo 3.12; else echo Python 3.12.4; fi')


def test_a_newer_python_for_which_the_locks_hold_is_taken_where_3_11_is_not_to_be_had(tree: Tree) -> None:
    newer(tree)
    found = tree.call('find_python; echo "$python"')
    assert found.stdout.splitlines()[-1] == str(tree.path / "python3")
    assert "taking 3.12" in found.stdout
    named = tree.run("bash", "-c", 'source bin/setup; find_python; echo "$python"', PYTHON=str(tree.path / "python3"))
    assert named.stdout.splitlines() == [str(tree.path / "python3")], "no 3.11 is fetched for who has named another"


def test_a_newer_python_for_which_they_do_not_hold_is_not(tree: Tree) -> None:
    newer(tree)
    (tree.root / "requirements" / "pythons.txt").write_text("# only\n3.11\n")
    assert "Python 3.11 is needed" in the_sentence(tree.call("find_python"))


def test_what_doctor_and_pip_allow_is_what_the_locks_hold_for() -> None:
    listed = (PROJECT / "requirements" / "pythons.txt").read_text().splitlines()[1:]
    assert [".".join(map(str, one)) for one in doctor.PYTHONS] == listed
    allowed = SpecifierSet(tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["requires-python"])
    assert [f"3.{minor}" for minor in range(9, 16) if f"3.{minor}" in allowed] == listed


def test_a_python_that_does_not_run_is_passed_over(tree: Tree) -> None:
    tree.stand_in("python3", f'exec {sys.executable} "$@"')
    tree.stand_in("python3.11", "exit 127")
    found = tree.call('find_python; echo "$python"')
    assert found.stdout.strip() == str(tree.path / "python3")


def test_a_full_disk_is_told_before_anything_is_written(tree: Tree) -> None:
    tree.stand_in("df", "printf 'head\\ndisk 9 9 1048576 9%% here\\n'")
    assert "1 GiB of free disk space" in the_sentence(tree.run())
    assert not (tree.root / ".venv").exists()


def test_a_missing_java_is_told_to_who_may_not_install_it(tree: Tree) -> None:
    (tree.path / "java").unlink()
    tree.stand_in("id", "echo 1000")
    sentence = the_sentence(tree.run())
    assert "Java 17 or newer is needed" in sentence
    assert "openjdk-17-jre-headless" in sentence
    assert not (tree.root / ".venv").exists()


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", "8"), ("11.0.2", "11"), ("21", "21")])
def test_the_version_of_java_is_understood(tree: Tree, version: str, major: str) -> None:
    tree.stand_in("java", f"echo 'openjdk version \"{version}\"' >&2")
    assert tree.call("java_major").stdout.strip() == major


def test_an_old_java_home_is_named_because_spark_would_use_it(tree: Tree, tmp_path: Path) -> None:
    home = tmp_path / "jdk8"
    (home / "bin").mkdir(parents=True)
    (tree.path / "java").rename(home / "bin" / "java")
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'java version \"1.8.0\"' >&2\n")
    sentence = the_sentence(tree.run(JAVA_HOME=str(home)))
    assert f"{home} has Java 8" in sentence


def test_a_failed_download_says_what_to_do_and_leaves_no_stamp(tree: Tree) -> None:
    nowhere = "http://127.0.0.1:9/"
    done = tree.run(PIP_INDEX_URL=nowhere, PIP_RETRIES="0", PIP_CONFIG_FILE=os.devnull)
    sentence = the_sentence(done)
    assert "could not be downloaded" in sentence
    assert "run the same command again" in sentence
    assert not (tree.root / ".venv" / ".set-up").exists()


def test_the_stamp_changes_with_the_locks_and_with_the_place(tree: Tree, tmp_path: Path) -> None:
    before = tree.call("what_is_wanted").stdout
    moved = tree.root.rename(tmp_path / "elsewhere")
    tree.root = moved
    after = tree.call("what_is_wanted").stdout
    with (moved / "requirements" / "dev.lock").open("a") as lock:
        lock.write("\n")
    assert len({before, after, tree.call("what_is_wanted").stdout}) == 3


def test_a_second_setup_waits_for_the_first(tree: Tree) -> None:
    (tree.root / "var").mkdir()
    with (tree.root / "var" / "setup.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            ["bash", "-c", "source bin/setup; one_at_a_time; say done"],
            cwd=tree.root,
            env={"PATH": str(tree.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        with waiting:
            assert waiting.stdout is not None
            assert "another set-up is running" in waiting.stdout.readline()
            fcntl.flock(held, fcntl.LOCK_UN)
            assert "done" in waiting.stdout.readline()
    assert waiting.returncode == 0


class Jars:
    """`ensure_jars`, where a copy from the folder `offered` takes the resolver's place."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.folder, self.offered = tree, tree.root / "var" / "jars", tree.root / "offered"
        self.offered.mkdir()

    def want(self, **contents: str) -> None:
        lines = [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}.jar" for name, text in contents.items()]
        (self.tree.root / "etl" / "stack" / "jars.sha256").write_text("\n".join(lines) + "\n")

    def offer(self, **contents: str) -> None:
        for name, text in contents.items():
            (self.offered / f"{name}.jar").write_text(text)

    def ensure(self) -> subprocess.CompletedProcess[str]:
        return self.tree.call(
            'jars_folder() { echo "$root/var/jars"; };'
            'resolve_jars() { mkdir "$scratch/jars" && cp offered/*.jar "$scratch/jars"; }; ensure_jars'
        )

    def present(self) -> set[str]:
        return {file.stem for file in self.folder.glob("*.jar")}


@pytest.fixture
def jars(tree: Tree) -> Jars:
    return Jars(tree)


def test_jars_with_the_pinned_sums_are_put_in_place_once(jars: Jars) -> None:
    jars.want(delta="4", storage="4")
    jars.offer(delta="4", storage="4")
    assert "downloading" in jars.ensure().stdout
    assert jars.present() == {"delta", "storage"}
    assert jars.ensure().stdout == ""


def test_a_jar_with_another_sum_is_refused_and_none_is_installed(jars: Jars) -> None:
    jars.want(delta="4", storage="4")
    jars.offer(delta="4", storage="tampered")
    assert "do not have the sums" in the_sentence(jars.ensure())
    assert jars.present() == set()


def test_new_jars_replace_the_former_ones_and_leave_a_users_own(jars: Jars) -> None:
    jars.want(delta4="4")
    jars.offer(delta4="4")
    assert jars.ensure().returncode == 0
    (jars.folder / "own.jar").write_text("mine")
    jars.want(delta5="5")
    jars.offer(delta5="5")
    (jars.offered / "delta4.jar").unlink()
    assert jars.ensure().returncode == 0
    assert jars.present() == {"delta5", "own"}


def test_make_alone_lists_every_target() -> None:
    listing = subprocess.run(["make"], cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    targets = {line.split()[1] for line in listing.splitlines()}
    makefile = (PROJECT / "Makefile").read_text()
    assert targets == {line.split(":")[1].strip() for line in makefile.splitlines() if line.startswith(".PHONY")}
    wanted = {"demo", "up", "down", "test", "test-fast", "check", "doctor", "setup", "lock", "docs", "clean"}
    assert wanted <= targets
