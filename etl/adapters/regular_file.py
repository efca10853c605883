"""Open a file that others put into a folder, without trusting what its name stands for by now.

    open     links are not followed; a pipe or a device does not make us wait
    fstat    anything but a regular file is refused

A file is listed first and opened later, so its sender may have put something else under its name meanwhile. Whoever
opens it gets a descriptor of a regular file, or an `OSError` at once (ADR 116).
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class RegularFile:
    """A descriptor of a regular file that is closed at the end. `name` is the file system's name, byte for byte."""

    def __init__(self, folder: Path, name: bytes) -> None:
        self._path = os.path.join(os.fsencode(folder), name)  # noqa: PTH118 - names are bytes

    def __enter__(self) -> int:
        descriptor = os.open(self._path, _FLAGS)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "Not a regular file", self._path)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def reason_of(error: OSError) -> str:
    """Why a file cannot be read, in the system's words and without its path."""
    return error.strerror or type(error).__name__
