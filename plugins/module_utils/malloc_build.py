# SPDX-License-Identifier: GPL-3.0-or-later
"""Compile the timed loop on the host, in a directory of its own that is gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence

from .command import Run
from .command import run as run_command
from .malloc_source import SOURCE

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-std=c99", "-D_GNU_SOURCE", "-fno-builtin", "-pthread")
DIRECTORIES = ("/tmp", "/var/tmp", "/root", "/dev/shm")
PACKAGES = {
    "debian": "apt install gcc libc6-dev",
    "rhel": "dnf install gcc glibc-devel",
    "fedora": "dnf install gcc glibc-devel",
    "suse": "zypper install gcc glibc-devel",
    "alpine": "apk add gcc musl-dev",
}
"""The command that brings a compiler with the headers of C, by the family of the system."""


class MallocError(Exception):
    """Why nothing was measured: one sentence that names the thing, the value and the fix."""


class Built(NamedTuple):
    """The loop: its path, and the compiler as it calls itself."""

    path: str
    compiler: str


@contextlib.contextmanager
def built(
    system: Mapping[str, Any],
    run: Run = run_command,
    search: Optional[str] = None,
    places: Sequence[str] = DIRECTORIES,
) -> Iterator[Built]:
    """Compile the loop for a ``with`` statement; MallocError without a compiler, or if it fails.

    ``system`` is the distribution (``id``, ``like``), for the name of the missing package.
    """
    compiler = find_compiler(system, search)
    with tempfile.TemporaryDirectory(prefix="fleet-mysqltune-malloc-", dir=executable(places)) as directory:
        path = os.path.join(directory, "loop")
        done = run([compiler, *FLAGS, "-x", "c", "-", "-o", path], stdin=SOURCE, timeout=120.0)
        if done.rc != 0:
            said = (done.err or done.out).strip()[:500]
            raise MallocError(
                f"{compiler} cannot compile the loop: {said}. If headers are missing: {_package(system)}."
            )
        yield Built(path, _version(compiler, run))


def find_compiler(system: Mapping[str, Any], search: Optional[str] = None) -> str:
    """Return the compiler of the host; MallocError names the command that installs one."""
    found = next(filter(None, (shutil.which(name, path=search) for name in COMPILERS)), None)
    if found is None:
        raise MallocError(
            f"there is no C compiler ({', '.join(COMPILERS)}) on this host. Install one ({_package(system)}), "
            "or measure on a host of the same kind that has one; nothing was measured."
        )
    return found


def executable(places: Sequence[str] = DIRECTORIES) -> str:
    """Return the first of some directories from which programs may be started."""
    for place in places:
        if os.access(place, os.W_OK | os.X_OK) and not os.statvfs(place).f_flag & os.ST_NOEXEC:
            return place
    raise MallocError(
        f"none of {', '.join(places)} can be written to and lets programs start (noexec). Mount one of them with exec."
    )


def _package(system: Mapping[str, Any]) -> str:
    names = [str(system.get("id") or ""), *(system.get("like") or [])]
    return next(
        (PACKAGES[name] for name in names if name in PACKAGES), "gcc with the headers of the C library"
    )


def _version(compiler: str, run: Run) -> str:
    said = run([compiler, "--version"], timeout=20.0).out.splitlines()
    return said[0].strip() if said else compiler
