# SPDX-License-Identifier: GPL-3.0-or-later
"""What verify.yml shows and writes: a table, and the text format of Prometheus. Pure.

``hosts`` maps each host to its records, as ``drift.drift`` and ``drift.unknown`` return them.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from .report_table import NONE, short_name
from .sysbench_progress import printable

Records = Mapping[str, Sequence[Mapping[str, Any]]]
Labels = Dict[str, str]

STATES = ("effective", "drift", "stopped", "unknown")
WORDS = {"effective": "as asked", "drift": "not as asked", "stopped": "stopped", "unknown": "unknown"}
METRICS = {
    "fleet_mysqltune_instance_effective": "1 if the running server is proved to be as asked, 0 if not.",
    "fleet_mysqltune_instance_stopped": "1 for a server that does not run.",
    "fleet_mysqltune_drift": "1 for each reason why a server or a host is not as asked.",
    "fleet_mysqltune_host_unknown": "1 if the host could not be observed, 0 if it was.",
    "fleet_mysqltune_verify_timestamp_seconds": "When the hosts were verified, seconds since the epoch.",
}


def lines(hosts: Records) -> List[str]:
    """Return the table, then what was found in whole sentences, then the sum."""
    headings = ("host", "instance", "launcher", "allocator", "level", "state", "reason")
    rows = [headings, *(_row(host, record) for host, records in hosts.items() for record in records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(headings))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    said = [
        f"{host}: {reason['name']}: {reason['message']}"
        for host, records in hosts.items()
        for record in records
        for reason in record["reasons"]
    ]
    return [*table, "", *map(printable, said), headline(hosts)]


def _row(host: str, record: Mapping[str, Any]) -> Tuple[str, ...]:
    names = ", ".join(dict.fromkeys(str(reason["name"]) for reason in record["reasons"]))
    cells = (
        host,
        short_name(str(record["instance"] or NONE)),
        record["launcher"],
        str(record["allocator"] or NONE).rpartition("/")[2],
        record["level"],
        WORDS[record["status"]],
        names,
    )
    return tuple(printable(str(cell or NONE)) for cell in cells)


def headline(hosts: Records) -> str:
    """Return the sum in one line; a host counts as the worst of its records."""
    states = [state_of(records) for records in hosts.values()]
    counts = [f"{states.count(state)} {WORDS[state]}" for state in STATES if state in states]
    return f"{len(states)} host{'' if len(states) == 1 else 's'}: {', '.join(counts)}."


def state_of(records: Sequence[Mapping[str, Any]]) -> str:
    """Return ``unknown`` or ``drift`` if one record is, ``stopped`` if all are, else ``effective``."""
    found = [record["status"] for record in records]
    for state in ("unknown", "drift"):
        if state in found:
            return state
    return "stopped" if set(found) == {"stopped"} else "effective"


def prometheus(hosts: Records, now: float) -> str:
    """Return all of it in Prometheus' text format; ``now`` in seconds since the epoch."""
    samples: Dict[str, List[str]] = {name: [] for name in METRICS}
    for name, labels, value in _samples(hosts, now):
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        samples[name].append(f"{name}{{{shown}}} {value}" if shown else f"{name} {value}")
    blocks = (
        [f"# HELP {name} {METRICS[name]}", f"# TYPE {name} gauge", *dict.fromkeys(found)]
        for name, found in samples.items()
        if found
    )
    return "\n".join(line for block in blocks for line in block) + "\n"


def _samples(hosts: Records, now: float) -> Iterator[Tuple[str, Labels, str]]:
    for host, records in hosts.items():
        yield "fleet_mysqltune_host_unknown", {"host": host}, str(int(state_of(records) == "unknown"))
        for record in records:
            labels = {"host": host, "instance": str(record["instance"] or "")}
            if record["status"] == "stopped":
                yield "fleet_mysqltune_instance_stopped", labels, "1"
            elif record["instance"]:
                shown = dict(labels, allocator=str(record["allocator"] or ""))
                yield "fleet_mysqltune_instance_effective", shown, str(int(record["status"] == "effective"))
            for reason in record["reasons"]:
                yield "fleet_mysqltune_drift", dict(labels, reason=str(reason["code"])), "1"
    yield "fleet_mysqltune_verify_timestamp_seconds", {}, f"{now:.3f}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
