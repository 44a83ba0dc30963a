# SPDX-License-Identifier: GPL-3.0-or-later
"""Read archives that may be hostile: recognise an allocator's source by its content, and unpack without leaving a directory."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import posixpath
import re
import shutil
import tarfile
import zlib
from typing import IO, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, cast

from .built import PROJECTS
from .libraries import sha256

MAX_ARCHIVE = 64 << 20
MAX_UNPACKED = 512 << 20
MAX_MEMBERS = 20_000
MAX_TEXT = 1 << 20

_OPENERS: Dict[bytes, Callable[[str], Any]] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, OverflowError)
_VERSION = re.compile(r"\d[0-9A-Za-z.]{0,30}")


class SourceError(Exception):
    """Why an archive is not used, or not built: one sentence without its full stop."""

    reason = "not_built"


class Source(NamedTuple):
    """An allocator's source: ``number`` is that of the soname, None if unknown; ``ready`` has a configure script."""

    project: str
    version: str
    sha256: str
    number: Optional[int]
    ready: bool


class Member(NamedTuple):
    """One member whose path is safe. ``path`` has no top directory; ``data`` is None for all but files."""

    info: tarfile.TarInfo
    top: str
    path: str
    data: Optional[IO[bytes]]


def recognise(path: str) -> Source:
    """Return what an archive holds, by its content and never by its name; ``SourceError`` if it cannot be used."""
    texts, names, top = _look(path)
    for project, find in _FINDERS.items():
        found = find(texts, names)
        if found and _VERSION.fullmatch(found[0]):
            version, number = found
            return Source(
                project, version, sha256(path), number, project == "mimalloc" or "configure" in names
            )
    inside = ", ".join(sorted(name for name in names if "/" not in name)[:8]) or "nothing"
    raise SourceError(
        f"{path} is the source of none of {', '.join(PROJECTS)}: its directory {top}/ has {inside}. "
        "Give the project's own source archive"
    )


def check_holds(path: str, source: Source, allocator: str) -> None:
    """Raise ``SourceError`` unless the project has this allocator."""
    if allocator not in PROJECTS[source.project]:
        builds = " or ".join(PROJECTS[source.project])
        raise SourceError(
            f"{path} holds {source.project} {source.version}, which builds {builds} and not {allocator}. "
            f"Set allocator_name to {builds}, or give another archive"
        )


def check_sha256(path: str, actual: str, expected: str) -> None:
    """Raise ``SourceError`` unless the archive has the hash that was asked for; an empty one asks for none."""
    if expected and actual != expected.lower():
        raise SourceError(f"{path} has the sha256 {actual}, and not {expected}. Get the archive again")


def _look(path: str) -> Tuple[Dict[str, str], Set[str], str]:
    """Return the texts that tell the version, the names of all files, and the top directory."""
    texts: Dict[str, str] = {}
    names: Set[str] = set()
    top = ""
    for member in members(path):
        names.add(member.path)
        top = member.top
        if member.data and member.path in _TEXTS and member.info.size <= MAX_TEXT:
            texts[member.path] = member.data.read().decode("utf-8", "replace")
    return texts, names, top


def _gperftools(texts: Dict[str, str], names: Set[str]) -> Optional[Tuple[str, Optional[int]]]:
    text = texts.get("configure.ac", "")
    found = re.search(r"AC_INIT\(\[?(?:google-perftools|gperftools)\]?,\s*\[?([^],)\s]+)", text)
    if not found or "src/tcmalloc.cc" not in names:
        return None
    info = re.search(r"^TCMALLOC_SO_VERSION=(\d+):\d+:(\d+)", text, re.MULTILINE)
    return found.group(1), int(info.group(1)) - int(info.group(2)) if info else None


def _jemalloc(texts: Dict[str, str], names: Set[str]) -> Optional[Tuple[str, Optional[int]]]:
    if "src/jemalloc.c" not in names or "configure.ac" not in names:
        return None
    found = re.match(r"(\d+\.\d+\.\d+)-", texts.get("VERSION", ""))
    found = found or re.search(r"^\* (\d+\.\d+\.\d+)\b", texts.get("ChangeLog", ""), re.MULTILINE)
    revision = re.search(r"^rev=(\d+)$", texts.get("configure.ac", ""), re.MULTILINE)
    return (found.group(1), int(revision.group(1)) if revision else None) if found else None


def _mimalloc(texts: Dict[str, str], names: Set[str]) -> Optional[Tuple[str, Optional[int]]]:
    text = texts.get("cmake/mimalloc-config-version.cmake", "")
    parts = re.findall(r"^set\(mi_version_(?:major|minor|patch)\s+(\d+)\)", text, re.MULTILINE)
    if not parts or not {"include/mimalloc.h", "CMakeLists.txt"} <= names:
        return None
    return ".".join(parts), int(parts[0])


_FINDERS = {"gperftools": _gperftools, "jemalloc": _jemalloc, "mimalloc": _mimalloc}
_TEXTS = ("configure.ac", "VERSION", "ChangeLog", "cmake/mimalloc-config-version.cmake")


class _Limited:
    """A stream that ends with an error where an archive becomes absurdly large."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self._stream, self._path, self._left = stream, path, MAX_UNPACKED

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, 1 << 20))
        self._left -= len(data)
        if self._left < 0:
            raise SourceError(
                f"{self._path} is more than {MAX_UNPACKED >> 20} MiB unpacked: no source of an allocator is"
            )
        return data


def members(path: str) -> Iterator[Member]:
    """Yield the members of a compressed tar archive one after the other, each one checked before it is given out.

    ``data`` can be read until the next one is asked for. All of the archive is read, so that damage is found.
    """
    try:
        with _open(path) as raw:
            stream = cast("IO[bytes]", _Limited(raw, path))
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                yield from _checked(tar, path)
            while stream.read(1 << 20):
                pass
    except _DAMAGE as error:
        raise SourceError(
            f"{path} is no whole tar archive: {str(error) or type(error).__name__}. Get it again"
        ) from error


def _open(path: str) -> Any:
    with open(path, "rb") as stream:
        opener = _OPENERS.get(stream.read(2))
        size = os.fstat(stream.fileno()).st_size
    if size > MAX_ARCHIVE:
        raise SourceError(
            f"{path} has {size >> 20} MiB: no source of an allocator has more than {MAX_ARCHIVE >> 20}"
        )
    if opener is None:
        raise SourceError(f"{path} is no .tar.gz, .tar.bz2 or .tar.xz archive. Give one")
    return opener(path)


def _checked(tar: tarfile.TarFile, path: str) -> Iterator[Member]:
    seen: Set[str] = set()
    links: Set[str] = set()
    tops: Set[str] = set()
    size = 0
    for count, info in enumerate(tar):
        name = posixpath.normpath(info.name)
        top, _, inner = name.partition("/")
        tops |= {top} - {"."}
        size += info.size
        problem = _problem(info, name, seen, links) or _too_much(count, size, tops)
        if problem:
            raise SourceError(f"{path} is refused: {problem}. Give the project's own source archive")
        if not info.isdir():
            seen.add(name)
        if info.issym():
            links.add(name)
        if inner:
            yield Member(info, top, inner, tar.extractfile(info) if info.isreg() else None)


def _too_much(count: int, size: int, tops: Set[str]) -> str:
    if count >= MAX_MEMBERS:
        return f"it has more than {MAX_MEMBERS} members"
    if size > MAX_UNPACKED:
        return f"it is more than {MAX_UNPACKED >> 20} MiB unpacked"
    return f"it has {' and '.join(sorted(tops))} at the top, and not one directory" if len(tops) > 1 else ""


def _problem(info: tarfile.TarInfo, name: str, seen: Set[str], links: Set[str]) -> str:
    """Return why a member could reach outside of the directory that it is unpacked into; empty if it cannot."""
    parts = info.name.split("/")
    if info.name.startswith("/") or ".." in parts:
        return f"its member {info.name} is not below one directory"
    if not (info.isreg() or info.isdir() or info.issym()):
        return f"its member {info.name} is neither file, directory nor symbolic link"
    if name in seen:
        return f"its member {info.name} is there twice"
    inner = name.split("/")
    if any("/".join(inner[:depth]) in links for depth in range(1, len(inner))):
        return f"its member {info.name} goes through a link"
    if info.issym():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), info.linkname))
        if info.linkname.startswith("/") or not target.startswith(inner[0] + "/"):
            return f"its link {info.name} leads outside, to {info.linkname}"
    return ""


def unpack(path: str, directory: str) -> None:
    """Unpack an archive, without its top directory, into an existing empty one; all becomes the caller's own.

    Times are kept, because make goes by them.
    """
    times: List[Tuple[str, float]] = []
    for member in members(path):
        target = os.path.join(directory, member.path)
        if member.info.isdir():
            os.makedirs(target, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if member.info.issym():
            os.symlink(member.info.linkname, target)
        elif member.data:
            _write(target, member.data, 0o755 if member.info.mode & 0o100 else 0o644)
            times.append((target, member.info.mtime))
    for target, time in times:
        os.utime(target, (time, time))


def _write(path: str, data: IO[bytes], mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        shutil.copyfileobj(data, stream)
        os.fchmod(descriptor, mode)
