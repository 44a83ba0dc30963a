# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the allocator libraries of a host, with all that decides whether one may be preloaded."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
import stat
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

from .allocators import LIBRARIES, check_library, classify
from .built import source_of
from .command import Run
from .command import run as run_command
from .elf import Elf, ElfError
from .option_file import read

DIRECTORIES = (
    "/usr/lib/*-linux-gnu*",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/local/lib/*-linux-gnu*",
    "/usr/local/lib64",
    "/usr/local/lib",
    "/lib/*-linux-gnu*",
    "/lib64",
    "/lib",
)
_CANDIDATE = re.compile(rf"lib.*({'|'.join(LIBRARIES)}).*\.so(\.|$)")
_LISTS = "var/lib/dpkg/info"


class Found(NamedTuple):
    """A library under the name to preload it by; ``path`` may be a link to ``real_path``."""

    path: str
    real_path: str
    soname: Optional[str]
    allocator: Optional[str]
    bits: Optional[int]
    machine: Optional[str]


def libraries(
    search_path: Sequence[str] = (), run: Run = run_command, root: str = "/", root_uid: int = 0
) -> List[Dict[str, Any]]:
    """Return each allocator library of the standard directories and of ``search_path`` (directories, files).

    What is named in ``search_path`` and is no directory is returned whatever it is, even if it is not there.
    """
    found = {library.path: library for library in _find(search_path, root)}
    packages = owners(sorted({library.real_path for library in found.values()}), run, root)
    return [
        _describe(found[path], packages.get(found[path].real_path), root, root_uid) for path in sorted(found)
    ]


def _find(search_path: Sequence[str], root: str) -> Iterator[Found]:
    seen = set()
    patterns = [os.path.join(root, pattern.lstrip("/")) for pattern in DIRECTORIES]
    standard = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    for directory in [*standard, *(path for path in search_path if os.path.isdir(path))]:
        real = os.path.realpath(directory)
        if real not in seen:
            seen.add(real)
            yield from _scan(real)
    for path in search_path:
        if not os.path.isdir(path):
            yield _identify(path, os.path.realpath(path))


def _scan(directory: str) -> Iterator[Found]:
    """Yield the allocators of a directory, each real file once, by the link that carries its soname."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    paths = (os.path.join(directory, name) for name in names if _CANDIDATE.match(name))
    for real in sorted({os.path.realpath(path) for path in paths if os.path.isfile(path)}):
        library = _identify(real, real)
        if library.allocator is None:
            continue
        link = os.path.join(directory, library.soname or os.path.basename(real))
        yield library._replace(path=link if os.path.realpath(link) == real else real)


def _identify(path: str, real: str) -> Found:
    try:
        with Elf.open(real if os.path.isfile(real) else os.devnull) as elf:
            soname = elf.soname
            name = classify(soname or real)
            return Found(path, real, soname, name, elf.bits, elf.machine)
    except (OSError, ElfError):
        return Found(path, real, None, classify(path), None, None)


def _describe(library: Found, package: Optional[str], root: str, root_uid: int) -> Dict[str, Any]:
    there = os.path.isfile(library.real_path)
    status = os.stat(library.real_path) if there else None
    problem = check_library(library.path, root_uid=root_uid, root=root)
    return {
        **library._asdict(),
        "uid": status and status.st_uid,
        "mode": status and f"{stat.S_IMODE(status.st_mode):04o}",
        "sha256": sha256(library.real_path) if there else None,
        "package": package,
        "source": source_of(library.real_path),
        "usable": problem is None,
        "reason": problem[0] if problem else None,
        "message": problem[1] if problem else None,
    }


def sha256(path: str) -> str:
    """Return the hash of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def owners(paths: Sequence[str], run: Run = run_command, root: str = "/") -> Dict[str, str]:
    """Return the package that each file belongs to; files of no package are left out."""
    if not paths:
        return {}
    if os.path.isdir(os.path.join(root, _LISTS)):
        return _dpkg_owners(paths, root)
    return _rpm_owners(paths, run) if shutil.which("rpm") else {}


def _dpkg_owners(paths: Sequence[str], root: str) -> Dict[str, str]:
    """Read the file lists of the packages in question: dpkg-query reads all of the host's, which is slow."""
    names = "|".join([*LIBRARIES, "perftools"]).replace("_", "-")
    pattern = re.compile(rf".*({names}).*\.list")
    directory = os.path.join(root, _LISTS)
    found = {}
    for name in sorted(name for name in os.listdir(directory) if pattern.fullmatch(name)):
        listed = set((read(os.path.join(directory, name)) or "").splitlines())
        package = name[: -len(".list")].split(":", 1)[0]
        found.update({path: package for path in paths if listed.intersection(_names(path))})
    return found


def _names(path: str) -> List[str]:
    """Return the names under which a list may have the file, since /lib is a link to /usr/lib."""
    return [path, path[len("/usr") :]] if path.startswith("/usr/") else [path]


def _rpm_owners(paths: Sequence[str], run: Run) -> Dict[str, str]:
    done = run(["rpm", "-qf", "--queryformat", "%{NAME}\n", *paths], timeout=20)
    lines = done.out.splitlines()
    if len(lines) != len(paths):
        return {}
    return {path: line for path, line in zip(paths, lines) if " " not in line}
