# SPDX-License-Identifier: GPL-3.0-or-later
"""Room that a run sets aside, so that a disk that becomes full can stop neither its decision nor its undo."""

from __future__ import annotations

import errno
import os
from typing import Callable, Sequence, TypeVar

from .durable import FileState, create, discard
from .lease import JournalError

SIZE = 262144
"""Bytes: some times what a run writes down from its begin to the end of its undo."""

Result = TypeVar("Result")


def set_aside(directory: str) -> None:
    """Write the reserve into a run's directory; ``JournalError`` with the figures if there is no room for it."""
    path = _reserve(directory)
    try:
        discard(path)
        create(path, FileState(os.urandom(SIZE), 0o600, os.geteuid(), os.getegid(), {}))
    except OSError as error:
        discard(path)
        room = os.statvfs(directory)
        raise JournalError(
            f"{directory} has {room.f_bavail * room.f_frsize} bytes left, and the journal needs {SIZE}: "
            f"{error.strerror}. Make room there, then run again; nothing was changed."
        ) from error


def with_room(directories: Sequence[str], write: Callable[[], Result]) -> Result:
    """Return what ``write`` returns; on a full disk give the reserves of these runs up, and write again."""
    try:
        return write()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        for directory in directories:
            discard(_reserve(directory))
        return write()


def _reserve(directory: str) -> str:
    return os.path.join(directory, "reserve")
