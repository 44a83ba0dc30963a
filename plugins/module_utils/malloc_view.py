# SPDX-License-Identifier: GPL-3.0-or-later
"""From the hosts' results to what the malloc report shows: figures, a table, a headline. Pure.

A host is ``{host, result, unusable, failure}``: what malloc_benchmark returned or nothing, the arms that had no usable
library, and why nothing was measured. Only the keys named here are taken over.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from .sysbench_progress import printable

View = Dict[str, Any]

SCOPE = (
    "A malloc loop says little about a database: it keeps one block at a time, so that nothing fragments, no memory goes back "
    "to the system, and no thread frees what another one allocated. Measure the server before you decide."
)
STATES = ("failed", "planned", "measured")
WORDS = {"failed": "not measured", "planned": "would be measured", "measured": "measured"}
LOOP = ("iterations", "size", "threads", "rounds", "seed", "preset", "cpus")
ARM = (
    *("allocator", "library", "valid", "reason", "message", "bound", "seconds", "cpu_seconds", "median", "min", "max"),
    *("iqr", "cpu_median", "ns_per_pair", "ratio", "cpu_ratio", "max_rss"),
)  # fmt: skip
HEADINGS = ("host", "allocator", "seconds", "min to max", "ratio to system", "CPU ratio", "library")
NONE = "-"


def view(run_id: str, hosts: Sequence[Mapping[str, Any]], generated: str) -> View:
    """Return everything that ``malloc.json``, the page and the table need; hosts that failed come first."""
    shown = sorted((_host(host) for host in hosts), key=lambda host: STATES.index(host["status"]))
    states = [host["status"] for host in shown]
    counts = {state: states.count(state) for state in STATES if state in states}
    total = f"{len(shown)} host{'' if len(shown) == 1 else 's'}"
    said = ", ".join(f"{number} {WORDS[state]}" for state, number in counts.items())
    return {
        "run_id": run_id,
        "generated": generated,
        "headline": f"{total}: {said}." if shown else "No host took part.",
        "scope": SCOPE,
        "counts": counts,
        "hosts": shown,
    }


def _host(host: Mapping[str, Any]) -> View:
    result = host.get("result") or {}
    arms = [_arm(arm) for arm in [*(result.get("arms") or []), *(host.get("unusable") or [])]]
    failure = str(host.get("failure") or "")
    loop = result.get("loop") or {}
    return {
        "host": str(host["host"]),
        "status": "failed" if failure or not result else "measured" if result.get("arms") else "planned",
        "message": failure or str(result.get("message") or "it gave no answer"),
        "loop": {key: loop.get(key) for key in LOOP} if loop else None,
        "compiler": result.get("compiler"),
        "remark": result.get("remark"),
        "order": result.get("order") or [],
        "arms": arms,
        "top": max((arm["max"] for arm in arms if arm["max"] is not None), default=0.0),
    }


def _arm(arm: Mapping[str, Any]) -> View:
    shown = {key: arm.get(key) for key in ARM}
    shown["valid"] = bool(shown["valid"])
    return shown


def lines(shown: View) -> List[str]:
    """Return the table, what a reader should know, and the headline, one string per line."""
    rows = [_row(host["host"], arm) for host in shown["hosts"] for arm in host["arms"] if host["loop"]]
    table = [HEADINGS, *rows] if rows else []
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADINGS))] if rows else []
    padded = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
    said = [note for host in shown["hosts"] for note in _notes(host)]
    return [*padded, *([""] if padded else []), *map(printable, [*said, SCOPE, shown["headline"]])]


def _row(host: str, arm: Mapping[str, Any]) -> Sequence[str]:
    valid = arm["median"] is not None
    cells = (
        host,
        (arm["allocator"] or NONE).rpartition("/")[2],
        f"{arm['median']:.3f}" if valid else str(arm["reason"] or NONE),
        f"{arm['min']:.3f} to {arm['max']:.3f}" if valid else NONE,
        figure(arm["ratio"]),
        figure(arm["cpu_ratio"]),
        arm["library"] or NONE,
    )
    return tuple(printable(cell) for cell in cells)


def figure(ratio: Optional[Mapping[str, Any]]) -> str:
    """Return ``0.71 (0.69 to 0.74)``; without enough rounds for an interval, the figure alone."""
    if not ratio:
        return NONE
    interval = "" if ratio["low"] is None else f" ({ratio['low']:.2f} to {ratio['high']:.2f})"
    return f"{ratio['median']:.2f}{interval}"


def _notes(host: Mapping[str, Any]) -> List[str]:
    said = [host["message"], host["remark"]]
    said += [f"{arm['allocator']}: {arm['message']}" for arm in host["arms"] if arm["reason"]]
    return [f"{host['host']}: {text}" for text in said if text]
