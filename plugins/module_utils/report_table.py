# SPDX-License-Identifier: GPL-3.0-or-later
"""The table at the end of a play: a line per instance, plain ASCII, only columns that say something."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

from .sysbench_progress import printable

HEADINGS = (
    "host",
    "instance",
    "launcher",
    "method",
    "allocator",
    "level",
    "downtime",
    "tps",
    "result",
    "verdict",
)
RIGHT = ("downtime",)
ALWAYS = ("host", "instance", "level", "result")
NONE = "-"


def lines(shown: Mapping[str, Any]) -> List[str]:
    """The whole table with its notes, one string per line."""
    rows = [row for host in shown["hosts"] for row in _rows(host)]
    kept = [at for at, name in enumerate(HEADINGS) if name in ALWAYS or any(_tells(row, at) for row in rows)]
    table = [[HEADINGS[at] for at in kept], *[[row[at] for at in kept] for row in rows]]
    widths = [max(len(row[at]) for row in table) for at in range(len(kept))]
    names = [HEADINGS[at] for at in kept]
    return [*(_line(row, names, widths) for row in table), *_notes(shown)] if rows else list(_notes(shown))


def _line(row: Sequence[str], names: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if name in RIGHT else cell.ljust(width)
        for cell, name, width in zip(row, names, widths)
    ]
    return "  ".join(cells).rstrip()


def _tells(row: Sequence[str], at: int) -> bool:
    """Whether a cell says something; a method that is called like the launcher does not."""
    same = HEADINGS[at] == "method" and row[at] == row[HEADINGS.index("launcher")]
    return row[at] != NONE and not same


def _rows(host: Mapping[str, Any]) -> List[List[str]]:
    if not host["instances"]:
        row = [host["host"], *[NONE] * 7, host["status"], NONE]
        return [[printable(cell) for cell in row]]
    return [_row(host, instance) for instance in host["instances"]]


def _row(host: Mapping[str, Any], instance: Mapping[str, Any]) -> List[str]:
    found = instance["comparison"]
    row = [
        host["host"],
        short_name(str(instance["name"] or NONE)),
        instance["launcher"] or NONE,
        instance["method"] or NONE,
        allocator(instance["allocator_before"], instance["allocator_after"]),
        instance["level"] or NONE,
        NONE if instance["downtime"] is None else f"{instance['downtime']:.1f} s",
        throughput(found),
        "stopped" if instance["launcher"] == "stopped" else host["status"],
        found["verdict"] if found else NONE,
    ]
    return [printable(str(cell)) for cell in row]


def short_name(name: str) -> str:
    """A unit without its ending; anything else as it is."""
    return name[: -len(".service")] if name.endswith(".service") else name


def allocator(before: Optional[str], after: Optional[str]) -> str:
    """``system -> tcmalloc``, or one name if nothing changed."""
    names = [_file_name(name) for name in (before, after) if name]
    if not names:
        return NONE
    return names[0] if len(set(names)) == 1 else " -> ".join(names)


def _file_name(name: str) -> str:
    return name.rpartition("/")[2] or name


def throughput(found: Optional[Mapping[str, Any]]) -> str:
    """``1813 -> 1843 (+1.7 %)``; a run that does not count is a question mark."""
    if not found:
        return NONE
    shown = [_rate(found[phase]) for phase in ("before", "after")]
    change = found["change"]
    return " -> ".join(shown) + ("" if change is None else f" ({change * 100:+.1f} %)")


def _rate(figures: Optional[Mapping[str, Any]]) -> str:
    if not figures:
        return NONE
    return f"{figures['tps']:.0f}" if figures["valid"] and figures["tps"] is not None else "?"


def _notes(shown: Mapping[str, Any]) -> List[str]:
    notes = [
        f"{host['host']}: {host['status']}: {host['message']}"
        for host in shown["hosts"]
        if host["message"] and (host["trouble"] or not host["instances"])
    ]
    notes += [f"{host['host']}: {note}" for host in shown["hosts"] for note in host["notes"]]
    found = [instance["comparison"] for host in shown["hosts"] for instance in host["instances"]]
    reasons = {f"{item['verdict']}: {item['reason']}" for item in found if item}
    return ["", shown["headline"], *(printable(note) for note in [*notes, *sorted(reasons)])]
