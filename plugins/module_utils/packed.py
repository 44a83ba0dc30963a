# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack what was built for other hosts, as a tar archive or a Debian package, and take it from such a file again."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from typing import Any, Dict, List, Optional

from .built import MARK, tree
from .durable import read_json, write_json
from .libraries import sha256
from .source_archive import SourceError, members, unpack
from .source_build import Workshop

DEB = b"!<arch>\n"
_DEPENDS = {"libstdc++.so.6": "libstdc++6"}


def is_deb(path: str) -> bool:
    """Tell a Debian package by its content."""
    with open(path, "rb") as stream:
        return stream.read(len(DEB)) == DEB


def is_packed(path: str) -> bool:
    """Tell by its content whether a file was packed here, and is no source archive."""
    return is_deb(path) or any(member.path == MARK for member in members(path))


def kept(prefix: str, form: str, allocator: str, source_sha256: str, chosen: List[str]) -> Optional[str]:
    """Return the packed file of an earlier call that was built from this archive in this way."""
    note = read_json(os.path.join(prefix, "packages", f"{allocator}.{form}.json")) or {}
    same = note.get("source_sha256") == source_sha256 and note.get("options") == chosen
    if same and os.path.isfile(note["file"]) and sha256(note["file"]) == note["sha256"]:
        return str(note["file"])
    return None


def pack(finished: str, mark: Dict[str, Any], form: str, shop: Workshop) -> str:
    """Pack a finished tree and return the path of the file, below ``packages`` of the prefix."""
    directory = os.path.join(shop.prefix, "packages")
    os.makedirs(directory, 0o755, exist_ok=True)
    made = _deb(finished, mark, shop) if form == "deb" else _tar(finished, mark)
    target = os.path.join(directory, os.path.basename(made))
    os.chmod(made, 0o644)
    os.rename(made, target)
    note = {"file": target, "sha256": sha256(target), **{k: mark[k] for k in ("source_sha256", "options")}}
    write_json(os.path.join(directory, f"{mark['allocator']}.{form}.json"), note)
    return target


def _tar(finished: str, mark: Dict[str, Any]) -> str:
    name = f"{mark['allocator']}-{mark['version']}"
    path = os.path.join(os.path.dirname(finished), f"{name}-{mark['machine']}.tar.gz")
    with tarfile.open(path, "w:gz") as tar:
        tar.add(finished, arcname=name)
    return path


def _deb(finished: str, mark: Dict[str, Any], shop: Workshop) -> str:
    work = os.path.dirname(finished)
    root = os.path.join(work, "package")
    target = os.path.join(root, tree(shop.prefix, mark["allocator"], mark["version"]).lstrip("/"))
    os.makedirs(os.path.dirname(target))
    shutil.copytree(finished, target, symlinks=True)
    os.makedirs(os.path.join(root, "DEBIAN"))
    architecture = _dpkg(["dpkg", "--print-architecture"], shop).strip()
    with open(os.path.join(root, "DEBIAN/control"), "w", encoding="utf-8") as stream:
        stream.write(control(mark, architecture))
    for directory, _, _ in os.walk(root):
        os.chmod(directory, 0o755)
    path = os.path.join(work, f"{package_name(mark['allocator'])}_{mark['version']}_{architecture}.deb")
    _dpkg(["dpkg-deb", "--build", root, path], shop)
    return path


def package_name(allocator: str) -> str:
    """Return the name of our Debian package of an allocator."""
    return f"fleet-mysqltune-{allocator.replace('_', '-')}"


def control(mark: Dict[str, Any], architecture: str) -> str:
    """Return the control file of the Debian package (deb-control(5))."""
    depends = [f"libc6 (>= {mark['glibc']})"] if mark["glibc"] else ["libc6"]
    depends += [_DEPENDS[soname] for soname in mark["needed"] if soname in _DEPENDS]
    return (
        f"Package: {package_name(mark['allocator'])}\n"
        f"Version: {mark['version']}\n"
        f"Architecture: {architecture}\n"
        f"Depends: {', '.join(depends)}\n"
        "Maintainer: fleet.mysqltune <root@localhost>\n"
        "Section: libs\n"
        "Priority: optional\n"
        f"Description: {mark['allocator']} of {mark['project']} {mark['version']}, built by fleet.mysqltune\n"
        f" Built from the archive with the sha256 {mark['source_sha256']}.\n"
    )


def take_out(path: str, work: str, shop: Workshop) -> str:
    """Unpack a packed file below ``work`` and return the tree in it."""
    finished = os.path.join(work, "tree")
    if not is_deb(path):
        os.mkdir(finished)
        unpack(path, finished)
        return finished
    _dpkg(["dpkg-deb", "--extract", path, os.path.join(work, "package")], shop)
    base = os.path.join(work, "package", shop.prefix.lstrip("/"))
    inside = os.listdir(base) if os.path.isdir(base) else []
    if len(inside) != 1 or not re.fullmatch(r"[a-z_]+-[0-9A-Za-z.]+", inside[0]):
        raise SourceError(
            f"{path} has not one directory below {shop.prefix}: it was packed for another prefix"
        )
    return os.path.join(base, inside[0])


def install_deb(path: str, shop: Workshop) -> None:
    """Install a Debian package with dpkg."""
    _dpkg(["dpkg", "--install", path], shop)


def _dpkg(argv: List[str], shop: Workshop) -> str:
    done = shop.run(argv, timeout=300)
    if done.rc == 127:
        raise SourceError(
            f"{done.err}: Debian packages need it. Use allocator_source_install: prefix on this system"
        )
    if done.rc != 0:
        raise SourceError(f"`{' '.join(argv)}` failed: {(done.err.strip() or done.out.strip())[-600:]}")
    return str(done.out)
