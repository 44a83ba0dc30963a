# SPDX-License-Identifier: GPL-3.0-or-later
"""Read MySQL and MariaDB option files: which ones a server reads, in which order, and what they say.

Source: "Using Option Files" in the MySQL manual, "Configuring MariaDB with Option Files" in MariaDB's.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

GLOBAL_FILES = ("/etc/my.cnf", "/etc/mysql/my.cnf")
MAX_DEPTH = 10
"""Directories of includes nest no deeper in the servers either (MySQL: 10)."""

_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\"}
_SECRET = re.compile(r"passw|secret|passphrase|token|sst.?auth", re.IGNORECASE)
HIDDEN = "********"


class Option(NamedTuple):
    """One line of a section. ``name`` has dashes for underscores; ``value`` is None if there is no ``=``."""

    section: str
    name: str
    value: Optional[str]


def normal(name: str) -> str:
    """Return an option's name in one spelling: no leading dashes or ``loose-``, dashes, lower case."""
    plain = name.lstrip("-").replace("_", "-").lower()
    return plain[len("loose-") :] if plain.startswith("loose-") else plain


def parse(text: str) -> List[Option]:
    """Parse the text of one option file; directives such as ``!include`` are left out."""
    found: List[Option] = []
    section = ""
    for line in (raw.strip() for raw in text.splitlines()):
        if line.startswith("["):
            section = line[1:].split("]", 1)[0].strip()
        elif line and line[0] not in "#;!":
            name, equals, value = line.partition("=")
            found.append(Option(section, normal(name.strip()), _value(value) if equals else None))
    return found


def _value(text: str) -> str:
    """Take comment and quotes off a value, and resolve its escapes."""
    text = text.strip()
    if text[:1] in ("'", '"') and text.find(text[0], 1) > 0:
        text = text[1 : text.find(text[0], 1)]
    else:
        text = re.split(r"\s#", text, maxsplit=1)[0].rstrip()
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(0)), text)


def includes(text: str) -> List[str]:
    """Return the ``!include`` and ``!includedir`` lines of a file, in order."""
    return [line for line in (raw.strip() for raw in text.splitlines()) if line.startswith("!include")]


def expand(path: str, depth: int = 0) -> Iterator[str]:
    """Yield an option file and all that it includes, in the order of reading; missing files are left out."""
    text = read(path)
    if text is None or depth > MAX_DEPTH:
        return
    yield path
    for line in includes(text):
        directive, _space, target = line.partition(" ")
        target = target.strip()
        if directive == "!includedir":
            for name in sorted(glob.glob(os.path.join(glob.escape(target), "*.cnf"))):
                yield from expand(name, depth + 1)
        else:
            yield from expand(target, depth + 1)


def read(path: str) -> Optional[str]:
    """Return the text of a file, None if it is no readable file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None


def include_directories(path: str, depth: int = 0) -> Iterator[str]:
    """Yield the existing directories that an option file includes, the one whose last file is read last at the end."""
    for line in includes(read(path) or "") if depth <= MAX_DEPTH else ():
        directive, _space, target = line.partition(" ")
        target = target.strip()
        if directive == "!include":
            yield from include_directories(target, depth + 1)
        elif os.path.isdir(target):
            for name in sorted(glob.glob(os.path.join(glob.escape(target), "*.cnf"))):
                yield from include_directories(name, depth + 1)
            yield target


def files(
    argv: Sequence[str], basedir: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
) -> List[str]:
    """Return the existing option files of a program with these arguments, in the order it reads them."""
    return list(dict.fromkeys(found for path in tops(argv, basedir, environ) for found in expand(path)))


def tops(
    argv: Sequence[str], basedir: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
) -> List[str]:
    """Return the option files that a program looks for by itself, whether they exist or not."""
    given = arguments(argv)
    if "no-defaults" in given:
        return []
    if given.get("defaults-file"):
        return [str(given["defaults-file"])]
    environ = environ or {}
    named = [
        *GLOBAL_FILES,
        os.path.join(basedir, "etc", "my.cnf") if basedir else None,
        os.path.join(environ["MYSQL_HOME"], "my.cnf") if environ.get("MYSQL_HOME") else None,
        given.get("defaults-extra-file"),
        os.path.join(environ["HOME"], ".my.cnf") if environ.get("HOME") else None,
    ]
    return [path for path in named if path]


def arguments(argv: Sequence[str]) -> Dict[str, Optional[str]]:
    """Return the long options of a command line, the last one of each name."""
    found: Dict[str, Optional[str]] = {}
    for word in argv[1:]:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found[normal(name)] = value if equals else None
    return found


def sections(version: str = "", suffix: str = "") -> List[str]:
    """Return the sections that a server of either flavour reads."""
    series = ".".join(version.split(".")[:2])
    plain = ["mysqld", "server", "mariadb", "mariadbd"]
    names = plain + ([f"{name}-{series}" for name in plain if name != "server"] if series else [])
    return names + ([name + suffix for name in names] if suffix else [])


def options(paths: Sequence[str], names: Sequence[str]) -> Dict[str, Optional[str]]:
    """Return what the sections ``names`` of these files say together; later lines win."""
    return {
        option.name: option.value
        for path in paths
        for option in parse(read(path) or "")
        if option.section in names
    }


def masked(text: str) -> str:
    """Return the text of an option file with the values of passwords and the like hidden, in comments too."""
    return re.sub(
        r"^([^=\n]*)=[^\n]*",
        lambda line: f"{line.group(1)}={HIDDEN}" if _SECRET.search(line.group(1)) else line.group(0),
        text,
        flags=re.MULTILINE,
    )


def redacted(argv: Sequence[str]) -> List[str]:
    """Return a command line with the values of passwords and the like hidden."""
    shown: List[str] = []
    hide = False
    for word in argv:
        name, equals, _value_text = word.partition("=")
        if hide and not word.startswith("-"):
            shown.append(HIDDEN)
        elif equals and _SECRET.search(word):
            shown.append(f"{name}={HIDDEN}")
        else:
            shown.append(word)
        hide = not equals and word.startswith("--") and bool(_SECRET.search(word))
    return shown
