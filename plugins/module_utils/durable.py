# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that survive a kill or a power cut: whole old content or whole new content, never a mixture.

Every change is made of ``os``-level calls only, so that a test can stop the program at each of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileState(NamedTuple):
    """All of a regular file that is kept: bytes, permission bits, owner, group, extended attributes."""

    content: bytes
    mode: int
    uid: int
    gid: int
    xattrs: Dict[str, bytes]

    @property
    def sha256(self) -> str:
        return sha256(self.content)


def sha256(content: bytes) -> str:
    """Return the hash that names and compares contents."""
    return hashlib.sha256(content).hexdigest()


def read_state(path: str) -> Optional[FileState]:
    """Return the file's state, None if nothing is there; ``OSError`` if it is not a regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(22, "not a regular file", path)
        content = _read_all(descriptor)
        mode = stat.S_IMODE(status.st_mode)
        return FileState(content, mode, status.st_uid, status.st_gid, _xattrs(descriptor))
    finally:
        os.close(descriptor)


def _read_all(descriptor: int) -> bytes:
    parts: List[bytes] = []
    while True:
        part = os.read(descriptor, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _xattrs(descriptor: int) -> Dict[str, bytes]:
    """Return the extended attributes; ACLs and security labels are among them."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {name: os.getxattr(descriptor, name) for name in os.listxattr(descriptor)}
    except OSError:
        return {}


def create(path: str, state: FileState) -> None:
    """Create ``path`` with everything in ``state``, on the disk when this returns."""
    descriptor = os.open(path, CREATE, 0o600)
    try:
        _write_all(descriptor, state.content)
        if (state.uid, state.gid) != (os.geteuid(), os.fstat(descriptor).st_gid):
            os.fchown(descriptor, state.uid, state.gid)
        os.fchmod(descriptor, state.mode)
        for name, value in state.xattrs.items():
            _set_xattr(descriptor, name, value)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _set_xattr(descriptor: int, name: str, value: bytes) -> None:
    try:
        if os.getxattr(descriptor, name) == value:
            return
    except OSError:
        pass
    os.setxattr(descriptor, name, value)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def move(temp: str, path: str) -> None:
    """Let ``temp`` take the place of ``path``, durably."""
    os.rename(temp, path)
    sync_directory(os.path.dirname(path))


def replace(path: str, state: FileState, temp: str) -> None:
    """Put ``state`` in the place of ``path`` through ``temp``, a name in the same directory."""
    discard(temp)
    try:
        create(temp, state)
    except OSError:
        discard(temp)
        raise
    move(temp, path)


def discard(path: str) -> None:
    """Remove a temporary file if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove(path: str) -> None:
    """Remove ``path``, durably."""
    discard(path)
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Let the entries of a directory reach the disk."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_value(path: str) -> str:
    """Return a setting of the kernel: the word in brackets of a choice (``always [madvise] never``), else the text."""
    with open(path, encoding="ascii", errors="replace") as stream:
        text = stream.read().strip()
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen.group(1) if chosen else text


def write_value(path: str, value: str) -> None:
    """Set a setting of the kernel; such a file takes one write and cannot be replaced."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        _write_all(descriptor, value.encode() + b"\n")
    finally:
        os.close(descriptor)


def make_directory(path: str, mode: int) -> None:
    """Create one directory, durably; one that is there already is left as it is."""
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        return
    sync_directory(os.path.dirname(path))


def missing_directories(path: str) -> List[str]:
    """Return what has to be made for the directory ``path`` to exist, the uppermost first."""
    missing: List[str] = []
    while not os.path.isdir(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    return missing


def append_record(path: str, record: Mapping[str, Any]) -> None:
    """Append one JSON line, on the disk when this returns; a torn line before it is closed first."""
    line = json.dumps(record, sort_keys=True).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        _write_all(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if not size:
        sync_directory(os.path.dirname(path))


def read_records(path: str) -> List[Dict[str, Any]]:
    """Return the whole records of a file; a torn one counts as never written, for nothing followed it."""
    try:
        with open(path, "rb") as stream:
            lines = stream.read().split(b"\n")
    except FileNotFoundError:
        return []
    records = (_parse(line) for line in lines)
    return [record for record in records if isinstance(record, dict)]


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def write_json(path: str, value: Any) -> None:
    """Write a JSON document, readable by root only; readers see the old or the new one."""
    content = json.dumps(value, sort_keys=True, indent=1).encode() + b"\n"
    replace(path, FileState(content, 0o600, os.geteuid(), os.getegid(), {}), f"{path}.tmp")


def read_json(path: str) -> Any:
    """Return the document, or None if it is absent or not whole."""
    try:
        with open(path, "rb") as stream:
            return _parse(stream.read())
    except OSError:
        return None
