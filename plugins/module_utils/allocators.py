# SPDX-License-Identifier: GPL-3.0-or-later
"""The allocators by name and file, and whether a library is fit to be preloaded."""

from __future__ import annotations

import mmap
import os
import re
import stat
from typing import Iterator, List, Optional, Tuple

from .elf import Elf, ElfError

LIBRARIES = ("tcmalloc", "tcmalloc_minimal", "jemalloc", "mimalloc", "mtmalloc", "umem", "hoard")
ALLOCATORS = ("system", "glibc", *LIBRARIES, "linked")

# The _debug and _and_profiler builds of tcmalloc are no candidates: they cost more than any allocator gains.
_NAME = re.compile(rf"lib({'|'.join(LIBRARIES)})\.so(\.[0-9.]+)?")

Problem = Tuple[str, str]
"""A reason code and a sentence."""


def classify(name: str) -> Optional[str]:
    """Return the allocator that a file name, path or soname belongs to, None if it is none.

    The debug and profiling builds of tcmalloc are not recognised on purpose.
    """
    match = _NAME.fullmatch(os.path.basename(name))
    return match.group(1) if match else None


def check_library(
    path: str, bits: Optional[int] = None, machine: Optional[str] = None, root_uid: int = 0, root: str = "/"
) -> Optional[Problem]:
    """Return why ``path`` cannot be preloaded into a daemon of this class and machine, None if it can.

    Reasons: ``not_found``, ``not_elf``, ``elf_class``, ``elf_machine``, ``page_size``, ``unsafe_path``.
    Directories are checked from ``root`` down.
    """
    if not os.path.isfile(path):
        return "not_found", f"{path} {_instead(path)}. Install the library there, or name another."
    try:
        with Elf.open(path) as elf:
            problem = _unfit(elf, path, bits, machine)
    except (OSError, ElfError) as error:
        return "not_elf", f"{error}. Name a shared library instead of {path}."
    return problem or unsafe_path(path, root_uid, root)


def _instead(path: str) -> str:
    """Say what is there instead of a file."""
    if os.path.isdir(path):
        return "is a directory"
    if os.path.exists(path):
        return "is no regular file"
    return f"is a link that leads nowhere ({os.readlink(path)})" if os.path.islink(path) else "does not exist"


def _unfit(elf: Elf, path: str, bits: Optional[int], machine: Optional[str]) -> Optional[Problem]:
    if bits is not None and elf.bits != bits:
        return "elf_class", f"{path} is a {elf.bits}-bit library, but the server is a {bits}-bit program."
    if machine is not None and elf.machine != machine:
        return "elf_machine", f"{path} is built for {elf.machine}, but the server for {machine}."
    if not elf.dynamic:
        return "not_elf", f"{path} is not a shared library. Name one that is."
    if elf.alignment < mmap.PAGESIZE:
        return "page_size", (
            f"{path} is aligned to {elf.alignment} bytes, but this host has pages of {mmap.PAGESIZE} bytes. "
            "Install a build for this page size."
        )
    return None


def unsafe_path(path: str, root_uid: int = 0, root: str = "/") -> Optional[Problem]:
    """Return how others could replace the file: each directory and link on the way must be root's alone."""
    for part in components(path):
        if len(part) < len(root):
            continue
        status = os.lstat(part)
        if status.st_uid != root_uid:
            return "unsafe_path", _unsafe(path, part, f"belongs to uid {status.st_uid}", f"chown root {part}")
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & 0o022:
            mode = f"has mode {stat.S_IMODE(status.st_mode):04o}"
            shared = status.st_mode & stat.S_ISVTX
            fix = f"{part} is everybody's: move the library" if shared else f"chmod go-w {part}"
            return "unsafe_path", _unsafe(path, part, mode, fix)
    return None


def _unsafe(path: str, part: str, what: str, fix: str) -> str:
    return (
        f"{path} could be replaced by others than root: {part} {what}. Correct it ({fix}), or name another."
    )


def components(path: str) -> Iterator[str]:
    """Yield every directory, link and file on the way to ``path``, links followed step by step."""
    pending = _parts(os.path.abspath(path))
    current, steps = "/", 0
    yield current
    while pending and steps < 200:
        steps += 1
        name = pending.pop(0)
        if name == "..":
            current = os.path.dirname(current)
            continue
        step = os.path.join(current, name)
        yield step
        if not os.path.islink(step):
            current = step
            continue
        target = os.readlink(step)
        pending = _parts(target) + pending
        current = "/" if target.startswith("/") else current


def _parts(path: str) -> List[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
