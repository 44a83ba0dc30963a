# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge pages and vm.* values of a host: what runs, what our two files set at boot, what wins over them. Read only.

Sources: tmpfiles.d(5), sysctl.d(5), tuned.conf(5), sysfs.conf of sysfsutils.
"""

from __future__ import annotations

import configparser
import fnmatch
import glob
import itertools
import os
import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from .durable import read_value
from .option_file import read

THP = "transparent_huge_pages"
SETTINGS = (THP, "overcommit_memory", "swappiness")
THP_FILE = "fleet-mysqltune-thp.conf"
SYSCTL_FILE = "60-fleet-mysqltune.conf"
TOOLS = {"tmpfiles.d": ("systemd-tmpfiles",), "sysctl.d": ("systemd-sysctl", "sysctl")}
PROGRAMS = ("usr/bin", "bin", "usr/sbin", "sbin", "usr/lib/systemd", "lib/systemd")
SCRIPTS = (
    "systemd/system/*.wants/*.service",
    "systemd/system/*.requires/*.service",
    "init.d/*",
    "rc.local",
    "rc.d/rc.local",
    "sysfs.conf",
    "sysfs.d/*.conf",
)
"""Below /etc: what runs, or is read, after tmpfiles at boot and is known to carry this setting."""

_MANAGED = "# Managed by fleet.mysqltune: set at every boot. Edits are lost.\n"
_POLICY = re.compile(r"\b(always|madvise|never)\b")


class Roots(NamedTuple):
    """Where the trees begin. What else belongs to the system lies beside ``config``."""

    sys: str = "/sys"
    proc: str = "/proc"
    config: str = "/etc"

    @property
    def system(self) -> str:
        return os.path.dirname(self.config.rstrip("/")) or "/"

    def runtime(self, name: str) -> str:
        """Return the file of the kernel that holds a setting."""
        if name == THP:
            return os.path.join(self.sys, "kernel/mm/transparent_hugepage/enabled")
        return os.path.join(self.proc, "sys/vm", name)

    def file(self, name: str) -> str:
        """Return our file that sets it at boot."""
        return os.path.join(
            self.config, *(("tmpfiles.d", THP_FILE) if name == THP else ("sysctl.d", SYSCTL_FILE))
        )

    def lasting(self, name: str) -> bool:
        """Tell whether the system has the program that applies that file."""
        tools = TOOLS["tmpfiles.d" if name == THP else "sysctl.d"]
        return any(
            os.path.exists(os.path.join(self.system, *at)) for at in itertools.product(PROGRAMS, tools)
        )

    def text(self, path: str, wanted: Mapping[str, Optional[str]]) -> Optional[str]:
        """Return what our file at ``path`` has to say; None if it has nothing to say."""
        rules = [
            self._rule(name, wanted[name]) for name in SETTINGS if self.file(name) == path and wanted[name]
        ]
        return _MANAGED + "".join(rules) if rules else None

    def _rule(self, name: str, value: Optional[str]) -> str:
        return f"w {self.runtime(name)} - - - - {value}\n" if name == THP else f"vm.{name} = {value}\n"


def running_value(name: str, roots: Roots) -> Optional[str]:
    """Return the value that the kernel holds, None if it has no such setting."""
    try:
        return read_value(roots.runtime(name))
    except OSError:
        return None


def boot_value(name: str, roots: Roots) -> Optional[str]:
    """Return the value that our file gives a setting at boot, None if it gives none."""
    text = read(roots.file(name)) or ""
    if name == THP:
        return dict(reversed(tmpfiles_rules(text))).get(roots.runtime(THP))
    return sysctl_values(text).get(f"vm.{name}")


def tmpfiles_rules(text: str) -> List[Tuple[str, str]]:
    """Return the path (or pattern) and the argument of each line that writes to a file."""
    fields = (line.split(None, 6) for line in text.splitlines())
    return [(line[1], line[6].strip()) for line in fields if len(line) == 7 and line[0][0] in "wf"]


def sysctl_values(text: str) -> Dict[str, str]:
    """Return the values by their dotted names; the last one counts."""
    values = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and line.strip()[0] not in "#;":
            values[key.strip().lstrip("-").replace("/", ".")] = value.strip()
    return values


def foreign(roots: Roots) -> List[Dict[str, Any]]:
    """Return, as ``{setting, value, file}``, what is applied at boot in place of our file or after it.

    ``value`` None: it could not be read from the file.
    """
    found = [*_foreign_sysctl(roots), *_foreign_tmpfiles(roots), *_scripts(roots), *_tuned(roots)]
    return [{"setting": name, "value": value, "file": file} for name, value, file in found]


Found = Iterator[Tuple[str, Optional[str], str]]


def boot_files(roots: Roots, kind: str) -> List[str]:
    """Return the files of ``tmpfiles.d`` or ``sysctl.d`` in their order; of one name the stronger directory's."""
    found: Dict[str, str] = {}
    places = (os.path.join(roots.system, place, kind) for place in ("run", "usr/local/lib", "usr/lib", "lib"))
    for place in (os.path.join(roots.config, kind), *places):
        for path in glob.glob(os.path.join(glob.escape(place), "*.conf")):
            found.setdefault(os.path.basename(path), path)
    return [found[name] for name in sorted(found)]


def _foreign_sysctl(roots: Roots) -> Found:
    """Yield the last that comes after our file; some tools read sysctl.conf last."""
    later = [path for path in boot_files(roots, "sysctl.d") if os.path.basename(path) > SYSCTL_FILE]
    last: Dict[str, Tuple[str, str]] = {}
    for path in [*later, os.path.join(roots.config, "sysctl.conf")]:
        last.update({key: (value, path) for key, value in sysctl_values(read(path) or "").items()})
    for name in SETTINGS:
        if f"vm.{name}" in last:
            yield (name, *last[f"vm.{name}"])


def _foreign_tmpfiles(roots: Roots) -> Found:
    """Yield rules for the same path in an earlier file (the first one counts), for another pattern in a later one."""
    target = roots.runtime(THP)
    for path in boot_files(roots, "tmpfiles.d"):
        name = os.path.basename(path)
        for pattern, value in tmpfiles_rules(read(path) or ""):
            same = pattern == target
            if (same and name < THP_FILE) or (
                not same and name > THP_FILE and fnmatch.fnmatch(target, pattern)
            ):
                yield THP, value, path


def _scripts(roots: Roots) -> Found:
    """Yield the scripts and enabled units that name the kernel's file, with the policy on that line."""
    for pattern in SCRIPTS:
        for path in sorted(glob.glob(os.path.join(glob.escape(roots.config), pattern))):
            named = [line for line in (read(path) or "").splitlines() if _names_thp(line)]
            policies = [match[1] for match in map(_POLICY.search, named) if match]
            if named:
                yield THP, policies[-1] if policies else None, path


def _names_thp(line: str) -> bool:
    return "transparent_hugepage/enabled" in line and not line.lstrip().startswith(("#", ";"))


def _tuned(roots: Roots) -> Found:
    """Yield what the active profile of tuned sets, if tuned is started at boot."""
    if not glob.glob(os.path.join(glob.escape(roots.config), "systemd/system/*.wants/tuned.service")):
        return
    profiles = (read(os.path.join(roots.config, "tuned/active_profile")) or "").split()
    found: Dict[str, Tuple[str, str]] = {}
    for profile in profiles:
        found.update(_profile(roots, profile))
    for name, (value, path) in sorted(found.items()):
        yield name, value, path


def _profile(roots: Roots, name: str, depth: int = 0) -> Dict[str, Tuple[str, str]]:
    """Return value and file by setting, what the profile includes first."""
    homes = (os.path.join(roots.config, "tuned"), os.path.join(roots.system, "usr/lib/tuned"))
    places = [os.path.join(home, part, name, "tuned.conf") for home in homes for part in ("", "profiles")]
    path = next(filter(os.path.isfile, places), None)
    parsed = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        parsed.read_string(read(path) or "" if path else "")
    except configparser.Error:
        return {}
    found: Dict[str, Tuple[str, str]] = {}
    for include in re.split(r"[,;\s]+", parsed.get("main", "include", fallback="") or ""):
        if include and depth < 10:
            found.update(_profile(roots, include, depth + 1))
    own = {THP: parsed.get("vm", "transparent_hugepages", fallback=None)}
    own[THP] = own[THP] or parsed.get("vm", "transparent_hugepage", fallback=None)
    own.update({key: parsed.get("sysctl", f"vm.{key}", fallback=None) for key in SETTINGS[1:]})
    found.update({key: (value, str(path)) for key, value in own.items() if value})
    return found
