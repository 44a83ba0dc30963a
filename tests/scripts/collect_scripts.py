#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect mysqld_safe scripts for check_scripts.py: collect_scripts.py DIRECTORY CLONE|PACKAGE.deb|FILE...

From a git clone of a server's source: every version that its history has, templates filled in. From a Debian package: the
scripts in it. They belong to their authors: keep them out of this repository.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SOURCES = ("scripts/mysqld_safe.sh", "scripts/safe_mysqld.sh", "debian/additions/mysqld_safe")
INSTALLED = re.compile(r"(mysqld_safe|mariadbd-safe|safe_mysqld)(-[0-9.]+)?")
TEMPLATES = {
    "CHECK_PID": "kill -0 $PID > /dev/null 2> /dev/null",
    "FIND_PROC": "ps wwwp $PID | grep -v mysqld_safe | grep -- $MYSQLD > /dev/null",
    "HOSTNAME": "hostname",
    "IS_LINUX": "true",
    "TARGET_LINUX": "true",
    "MYSQLD_DEFAULT_SWITCHES": "",
    "MYSQLD_USER": "mysql",
    "MYSQL_TCP_PORT": "3306",
    "MYSQL_UNIX_ADDR": "/tmp/mysql.sock",
    "SHELL_PATH": "/bin/sh",
    "prefix": "/usr/local/mysql",
}
"""What the build fills in; every other name is a directory below the prefix."""


def filled(text: bytes) -> bytes:
    """Return a script as its build would install it."""
    return re.sub(rb"@(\w+)@", lambda match: _value(match[1].decode()).encode(), text)


def _value(name: str) -> str:
    return TEMPLATES.get(name, f"/usr/local/mysql/{name.lower().removesuffix('dir')}")


def from_clone(clone: Path) -> Iterator[bytes]:
    """Yield every version of the script in the history of a clone."""
    git = ["git", "-C", str(clone)]
    for source in SOURCES:
        listed = subprocess.run(
            [*git, "rev-list", "--all", "--objects", "--", source], capture_output=True, text=True, check=True
        )
        for line in listed.stdout.splitlines():
            blob, _, path = line.partition(" ")
            if path == source:
                yield subprocess.run([*git, "cat-file", "blob", blob], capture_output=True, check=True).stdout


def from_package(package: Path) -> Iterator[bytes]:
    """Yield the scripts in a Debian package."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["dpkg-deb", "-x", package, directory], check=True)
        for path in sorted(Path(directory).rglob("*")):
            if INSTALLED.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                yield path.read_bytes()


def found(source: Path) -> Iterator[bytes]:
    """Yield the scripts of one source that are shell scripts with a launch of a server."""
    if source.is_dir():
        texts = from_clone(source)
    elif source.suffix == ".deb":
        texts = from_package(source)
    else:
        texts = iter([source.read_bytes()])
    return (filled(text) for text in texts if text.startswith(b"#!") and b"ledir" in text)


def main() -> int:
    """Write each distinct script once, under the hash of its content."""
    directory, *sources = map(Path, sys.argv[1:])
    directory.mkdir(parents=True, exist_ok=True)
    for source in sources:
        texts = list(found(source))
        for text in texts:
            (directory / f"{hashlib.sha256(text).hexdigest()[:12]}.sh").write_bytes(text)
        print(f"{source}: {len(texts)} scripts")
    print(f"{sum(1 for _ in directory.glob('*.sh'))} distinct scripts in {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
