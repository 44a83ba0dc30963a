# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a function in a child process that dies right before its n-th change of the file system."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, Callable, List, Tuple

CHANGES = (
    "open",
    "write",
    "fsync",
    "rename",
    "replace",
    "unlink",
    "mkdir",
    "rmdir",
    "fchmod",
    "fchown",
    "setxattr",
)
KILLED = 77
NO_WRITES_ELSEWHERE = ("open", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate")


def deaths(action: Callable[[], None]) -> List[int]:
    """Return how many changes ``action`` makes, as a list of points to die at (run once without dying)."""
    code, count = run_and_die(action, 0)
    assert code == 0, "the action fails by itself"
    return list(range(1, count + 1))


def run_and_die(action: Callable[[], None], point: int) -> Tuple[int, int]:
    """Run ``action`` in a child that dies before change number ``point`` (half way through a write).

    Return its exit code and, if it came to its end, the number of changes.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(action, point, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        count = int(stream.read() or b"0")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), count


def _child(action: Callable[[], None], point: int, writer: int) -> None:
    count = 0
    real_write = os.write

    def guard(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == point:
                if name == "write":
                    real_write(args[0], bytes(args[1])[: len(args[1]) // 2])
                os._exit(KILLED)
            return original(*args, **kwargs)

        return call

    for name in CHANGES:
        setattr(os, name, guard(name, getattr(os, name)))
    sys.addaudithook(_no_unseen_write)
    try:
        action()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    real_write(writer, str(count).encode())
    os._exit(0)


def _no_unseen_write(event: str, args: Tuple[Any, ...]) -> None:
    """Stop the child if it opens a file for writing past the guarded functions."""
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        os._exit(3)
