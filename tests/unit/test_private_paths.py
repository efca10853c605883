"""What no other user of the machine may read or change is refused when one could have."""

from __future__ import annotations

import os
import pickle
import socket
import stat
from pathlib import Path

import pytest

from etl.private_paths import NotPrivate, exposure, private_folder, require_private
from tests.support.another_user import give_away


@pytest.mark.parametrize(
    ("kind", "owner", "mode", "what"),
    [
        (stat.S_IFDIR, 7, 0o700, None),
        (stat.S_IFDIR, 7, 0o755, None),
        (stat.S_IFDIR, 0, 0o755, None),
        (stat.S_IFDIR, 7, 0o2750, None),
        (stat.S_IFLNK, 7, 0o777, None),
        (stat.S_IFREG, 7, 0o600, None),
        (stat.S_IFREG, 0, 0o400, None),
        (stat.S_IFSOCK, 7, 0o600, None),
        (stat.S_IFDIR, 8, 0o700, "belongs to user 8"),
        (stat.S_IFLNK, 8, 0o777, "belongs to user 8"),
        (stat.S_IFREG, 8, 0o600, "belongs to user 8"),
        (stat.S_IFDIR, 7, 0o775, "may be written to by others (mode 0775)"),
        (stat.S_IFDIR, 0, 0o1777, "may be written to by others (mode 1777)"),
        (stat.S_IFREG, 7, 0o666, "is open to others (mode 0666)"),
        (stat.S_IFREG, 7, 0o640, "is open to others (mode 0640)"),
        (stat.S_IFREG, 7, 0o604, "is open to others (mode 0604)"),
        (stat.S_IFSOCK, 7, 0o620, "is open to others (mode 0620)"),
    ],
)
def test_only_this_user_and_root_may_be_at_a_private_path(kind: int, owner: int, mode: int, what: str | None) -> None:
    found = exposure(os.stat_result((kind | mode, 0, 0, 1, owner, 0, 0, 0, 0, 0)), 7)
    assert (found and found[0]) == what


def test_a_refusal_names_the_path_what_is_wrong_and_the_command(tmp_path: Path) -> None:
    path = tmp_path / "my secrets.json"
    path.touch()
    path.chmod(0o666)
    with pytest.raises(NotPrivate) as refused:
        require_private(path)
    assert str(refused.value) == (
        f"{path} is open to others (mode 0666), so it is not trusted; run `chmod go= '{path}'` if nobody else has read "
        "or changed it, otherwise remove it"
    )
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    path.chmod(0o600)
    require_private(path)


def test_a_link_is_looked_at_with_what_it_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir(mode=0o700)
    link.symlink_to(folder)
    require_private(link)
    folder.chmod(0o707)
    with pytest.raises(NotPrivate, match="link may be written to by others"):
        require_private(link)
    folder.chmod(0o700)
    give_away(link, monkeypatch)
    with pytest.raises(NotPrivate, match="link belongs to user"):
        require_private(link)


def test_a_folder_is_made_for_this_user_only_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_folder(tmp_path / "var" / "run")
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert private_folder(made) == made, "and found again"
    made.chmod(0o770)
    with pytest.raises(NotPrivate, match="chmod go-w"):
        private_folder(made)


def test_a_path_that_is_missing_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        require_private(tmp_path / "nothing")


def test_a_socket_that_others_may_connect_to_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        (tmp_path / "s").chmod(0o666)
        with pytest.raises(NotPrivate, match="is open to others"):
            require_private(tmp_path / "s")
