#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove the package table against Debian's own suites: each package is fetched, and must hold its library.

Needs apt and this machine's own Debian mirror; changes nothing on this machine.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from generate import data

SUITES = {"11": "bullseye", "12": "bookworm", "13": "trixie", "14": "forky", "sid": "sid"}
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def mirror() -> str:
    """Return the mirror of this machine's apt sources."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT) $(RELEASE)"]
    said = subprocess.run(
        [*command, "Created-By: Packages", "Origin: Debian"], capture_output=True, text=True, check=True
    ).stdout
    found = [line.split()[0] for line in said.splitlines() if "security" not in line and " main " in line]
    if not found:
        raise SystemExit(
            "No Debian mirror in the apt sources of this machine. Run apt-get update, or add one."
        )
    return found[0]


class Suite:
    """apt with one suite and one architecture, in a directory of its own; ``kind`` is ``deb`` or ``deb-src``."""

    def __init__(self, folder: Path, source: str, suite: str, architecture: str, kind: str = "deb") -> None:
        self.folder = folder
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(f"{kind} [signed-by={KEYRING}] {source} {suite} main\n")
        places = {"Etc::sourcelist": "sources.list", "State::lists": "lists", "Cache": "cache"}
        self._options = [f"-oDir::{name}={folder / place}" for name, place in places.items()]
        self._options += [f"-oDir::State::status={folder}/status", "-oDir::Etc::sourceparts=/dev/null"]
        self._options += [f"-oAPT::Architecture={architecture}", f"-oAPT::Architectures={architecture}"]
        self._options += ["-oAcquire::Check-Valid-Until=false", "-oAPT::Sandbox::User=root", "-qq"]
        self.apt("update")

    def apt(self, *words: str) -> None:
        """Run apt-get; ``CalledProcessError`` if it fails."""
        subprocess.run(["apt-get", *self._options, *words], cwd=self.folder, check=True)

    def paths(self, package: str) -> set[str]:
        """Return every path in a package; it is fetched once."""
        fetched = sorted(self.folder.glob(f"{package}_*.deb"))
        if not fetched:
            self.apt("download", package)
            fetched = sorted(self.folder.glob(f"{package}_*.deb"))
        listed = ["dpkg-deb", "--contents", str(fetched[0])]
        said = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
        return {line.split()[5].removeprefix(".") for line in said.splitlines()}


def check(release: str, packages: dict[str, Any], source: str, architecture: str) -> bool:
    """Print one line per allocator; return whether all is as the table has it."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(Path(folder), source, SUITES[release], architecture)
        for allocator, package in packages.items():
            library = package.library.format(machine=MACHINES[architecture], bits=64)
            try:
                found = library in suite.paths(package.name)
            except subprocess.CalledProcessError:
                found = False
            good = good and found
            verdict = "ok" if found else "WRONG"
            print(f"{SUITES[release]:9} {architecture} {allocator:17} {package.name:24} {library} {verdict}")
    return good


def main() -> int:
    """Check every release of Debian in the table, on both architectures."""
    source, good = mirror(), True
    for (system, release), packages in data("packages").PACKAGES.items():
        if system == "debian":
            for architecture in MACHINES:
                good = check(release, packages, source, architecture) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
