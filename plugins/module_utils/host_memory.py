# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory settings of a host: as they run, as they will be at the next boot, and as they are asked for.

A setting is done when what is asked for stands in our file and is what runs. Names of the settings:
``transparent_huge_pages``, ``overcommit_memory``, ``swappiness``; all values are strings, None is "not asked".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from .boot_settings import SETTINGS, THP, Roots, boot_value, foreign, running_value
from .host_facts import in_container
from .option_file import read

if TYPE_CHECKING:
    from .journal import Journal

Record = Dict[str, Any]

ALLOWED = {
    THP: ("always", "madvise", "never"),
    "overcommit_memory": ("0", "1", "2"),
    "swappiness": tuple(str(number) for number in range(201)),
}
WORDS = {THP: "keep, madvise, never or always", "overcommit_memory": "0, 1 or 2", "swappiness": "0 to 200"}
HARMLESS_WITHOUT = ("madvise", "never")
"""A kernel without huge pages is as good as one that gives them to nobody who does not ask."""


class HostMemoryError(Exception):
    """Why the settings cannot be made: one sentence, and a word as ``reason``."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def asked(values: Mapping[str, Any]) -> Dict[str, Optional[str]]:
    """Return what is asked for, by setting; ``keep``, an empty text and None ask for nothing."""
    texts = {name: "" if values.get(name) is None else str(values[name]) for name in SETTINGS}
    wanted = {name: None if text in ("", "keep") else text for name, text in texts.items()}
    for name, value in wanted.items():
        if value is not None and value not in ALLOWED[name]:
            raise HostMemoryError(
                "bad_value", f"{name} of the host's memory is '{value}'. Use {WORDS[name]}."
            )
    return wanted


def observe(roots: Roots) -> Record:
    """Return what is there: the values that run (None: the kernel has no such setting), the rest per setting.

    ``container``: the kernel is another machine's. ``writable``, ``lasting`` (something applies our file at
    boot) and ``boot`` (the value in our file) are by setting; ``foreign`` is that of ``boot_settings``.
    """
    return {
        "container": _kernel_of_another(roots),
        "running": {name: running_value(name, roots) for name in SETTINGS},
        "writable": {name: os.access(roots.runtime(name), os.W_OK) for name in SETTINGS},
        "lasting": {name: roots.lasting(name) for name in SETTINGS},
        "boot": {name: boot_value(name, roots) for name in SETTINGS},
        "files": {name: roots.file(name) for name in SETTINGS},
        "foreign": foreign(roots),
    }


def _kernel_of_another(roots: Roots) -> bool:
    """Tell whether to keep away: the trees belong to a container, or are this container's view of the machine's."""
    if in_container(roots.system, roots.proc):
        return True
    return in_container() and (_same_tree(roots.sys, Roots().sys) or _same_tree(roots.proc, Roots().proc))


def _same_tree(path: str, own: str) -> bool:
    try:
        return os.stat(path).st_dev == os.stat(own).st_dev
    except OSError:
        return False


def unsupported(observed: Mapping[str, Any], wanted: Mapping[str, Optional[str]]) -> Optional[str]:
    """Return why nothing can be set here: ``container``, ``read_only`` or None."""
    if observed["container"]:
        return "container"
    locked = [name for name in _to_set(observed, wanted) if not observed["writable"][name]]
    return "read_only" if locked else None


def _to_set(observed: Mapping[str, Any], wanted: Mapping[str, Optional[str]]) -> List[str]:
    return [
        name for name in SETTINGS if wanted[name] and observed["running"][name] not in (None, wanted[name])
    ]


def changes(observed: Mapping[str, Any], wanted: Mapping[str, Optional[str]]) -> List[Record]:
    """Return what has to change, as ``{setting, from, to, file}``: the running values, and the file if it has to.

    ``to`` is None for a setting that is no longer asked for: its line leaves our file, its value stays.
    Raises ``HostMemoryError`` if a value would have to be set that nothing would set at boot.
    """
    if unsupported(observed, wanted):
        return []
    needed = _to_set(observed, wanted)
    lost = [name for name in needed if not observed["lasting"][name]]
    if lost:
        raise HostMemoryError("not_lasting", _no_tool(lost[0], observed["running"][lost[0]]))
    found = []
    for name in SETTINGS:
        file = observed["files"][name] if _file_differs(name, observed, wanted[name]) else None
        if file or name in needed:
            found.append(
                {"setting": name, "from": observed["running"][name], "to": wanted[name], "file": file}
            )
    return found


def _file_differs(name: str, observed: Mapping[str, Any], value: Optional[str]) -> bool:
    possible = value is None or (observed["lasting"][name] and observed["running"][name] is not None)
    return bool(possible and observed["boot"][name] != value)


def _no_tool(name: str, running: Optional[str]) -> str:
    tool, leave = ("systemd-tmpfiles", "keep") if name == THP else ("sysctl", "an empty value")
    return (
        f"{name} is {running}, and nothing here would set it again at boot: there is no {tool}. "
        f"Nothing was changed. Install it, or leave the setting alone with {leave}."
    )


def notes(observed: Mapping[str, Any], wanted: Mapping[str, Optional[str]]) -> List[str]:
    """Return what the reader has to know though nothing, or not all, can be done about it."""
    differing = _to_set(observed, wanted)
    reason = unsupported(observed, wanted)
    if reason:
        return [_cannot(reason, name, observed["running"][name], wanted[name]) for name in differing]
    found = [
        f"the kernel of this host has no {name}: nothing to set"
        for name in SETTINGS
        if wanted[name] and observed["running"][name] is None and wanted[name] not in HARMLESS_WITHOUT
    ]
    return found + [
        f"{other['file']} sets {other['setting']} to {other['value'] or 'something'} at boot and wins over our file: "
        "take it out, or the next boot undoes ours"
        for other in observed["foreign"]
        if wanted[other["setting"]] not in (None, other["value"])
    ]


def _cannot(reason: str, name: str, running: Optional[str], value: Optional[str]) -> str:
    asked_for = f"{name} is {running}, {value} was asked for and not set"
    if reason == "container":
        return f"{asked_for}: this host is a container, and the setting is its machine's. Set it there"
    return f"{asked_for}: it cannot be written here, the kernel's settings are mounted read-only"


def lines(planned: List[Record]) -> List[str]:
    """Return one sentence per change."""
    return [f"memory: {_line(change)}" for change in planned]


def _line(change: Mapping[str, Any]) -> str:
    name, before, after, file = change["setting"], change["from"], change["to"], change["file"]
    if after is None:
        return f"{name} leaves {file}; what runs ({before}) stays until the next boot"
    what = f"{name} stays {after}" if before == after else f"{name} {before} -> {after}"
    return f"{what}, {file}" if file else what


def texts(
    planned: List[Record], wanted: Mapping[str, Optional[str]], roots: Roots
) -> Dict[str, Optional[str]]:
    """Return the new text of each file that has to change, None for one to remove."""
    paths = [change["file"] for change in planned if change["file"]]
    return {path: roots.text(path, wanted) for path in paths}


def apply(planned: List[Record], wanted: Mapping[str, Optional[str]], roots: Roots, journal: Journal) -> None:
    """Make the changes through the journal and read them back; the files first, so that no value is for now only."""
    for path, text in texts(planned, wanted, roots).items():
        if text is None:
            journal.remove(path)
        else:
            journal.write(path, text.encode(), mode=0o644)
    for change in planned:
        if change["to"] not in (None, change["from"]):
            journal.set_value(roots.runtime(change["setting"]), change["to"])
    left = changes(observe(roots), wanted)
    if left:
        raise HostMemoryError("not_taken", f"set, but read back otherwise: {'; '.join(map(_line, left))}")


def diff(planned: List[Record], wanted: Mapping[str, Optional[str]], roots: Roots) -> List[Dict[str, str]]:
    """Return the files and the running values, before and after."""
    pairs = [(path, read(path), text) for path, text in texts(planned, wanted, roots).items()]
    pairs += [
        (roots.runtime(change["setting"]), f"{change['from']}\n", f"{change['to']}\n")
        for change in planned
        if change["to"] not in (None, change["from"])
    ]
    return [
        {
            "before_header": path if before is not None else "/dev/null",
            "after_header": path if after is not None else "/dev/null",
            "before": before or "",
            "after": after or "",
        }
        for path, before, after in pairs
    ]
