# SPDX-License-Identifier: GPL-3.0-or-later
"""From the hosts' records to what the report shows: rows, figures and verdicts in words. Pure.

A host record is ``{host, run_id, status, message, notes, instances, benchmarks}``. Only the keys named
here are taken over, so that nothing else that a record may hold can reach a report.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence

from .evidence import LEVELS

View = Dict[str, Any]
MIN_PAIRS = 6
TROUBLE = ("failed", "restore_failed", "restored", "unreachable", "not_started", "refused", "stopped")
ORDER = (*TROUBLE, "planned", "tuned", "unchanged")
CALM = {
    "tuned": "tuned and proved effective",
    "unchanged": "needed no change",
    "planned": "would change",
    "stopped": "stopped (left so)",
}
"""What the headline says of the hosts that need no attention."""
FIGURES = [
    "valid",
    "reason",
    "message",
    "tps",
    "qps",
    "lat_avg_ms",
    "lat_pct_ms",
    "percentile",
    "transactions",
    "events",
    "ignored_errors",
    "total_time_s",
    "threads",
    "test",
    "spread",
    "remarks",
    "command",
    "artifact",
    "asked",
    "sysbench",
    "started",
]
INSTANCE = [
    "name",
    "flavour",
    "version",
    "launcher",
    "method",
    "library",
    "allocator_before",
    "allocator_after",
    "level",
    "reason",
    "downtime",
    "restarted",
]
CURVE_POINTS = 120


def view(run_id: str, hosts: Sequence[Mapping[str, Any]], generated: str) -> View:
    """Everything that ``summary.json``, the page and the final table need; hosts in trouble come first."""
    shown = sorted((_host(host) for host in hosts), key=_rank)
    counts = {status: sum(host["status"] == status for host in shown) for status in ORDER}
    return {
        "run_id": run_id,
        "generated": generated,
        "headline": headline(shown),
        "counts": {status: count for status, count in counts.items() if count},
        "quiet": _quiet(counts["unchanged"], len(shown)),
        "hosts": shown,
    }


def _quiet(unchanged: int, total: int) -> int:
    """How many hosts the page puts together in one list since nothing was done; 0 where each has room."""
    return unchanged if total > 6 and unchanged > 3 else 0


def _rank(host: View) -> Any:
    status = host["status"]
    return (ORDER.index(status) if status in ORDER else -1, host["host"])


def headline(hosts: Sequence[View]) -> str:
    """The run in one sentence."""
    total = len(hosts)
    if not total:
        return "No host took part in this run."
    noun = "host" if total == 1 else "hosts"
    parts = []
    for status, words in CALM.items():
        count = sum(host["status"] == status for host in hosts)
        parts += [f"{count} {words}"] if count else []
    trouble = sum(host["status"] not in CALM for host in hosts)
    parts += [f"{trouble} need{'s' if trouble == 1 else ''} attention"] if trouble else []
    return f"{total} {noun}: " + ", ".join(parts) + "."


def _host(host: Mapping[str, Any]) -> View:
    benchmarks = [item for item in host.get("benchmarks") or [] if item.get("instance")]
    instances = [_instance(item, benchmarks) for item in host.get("instances") or []]
    return {
        "host": str(host.get("host", "")),
        "status": str(host.get("status") or "unchanged"),
        "message": str(host.get("message") or ""),
        "notes": [str(note) for note in host.get("notes") or []],
        "trouble": host.get("status") in TROUBLE,
        "instances": instances,
    }


def _instance(instance: Mapping[str, Any], benchmarks: Sequence[Mapping[str, Any]]) -> View:
    shown: View = {key: instance.get(key) for key in INSTANCE}
    shown["files"] = [str(path) for path in instance.get("files") or []]
    shown["steps"] = LEVELS.index(shown["level"]) + 1 if shown["level"] in LEVELS else 0
    own = [item for item in benchmarks if item["instance"] == instance.get("name")]
    shown["comparison"] = comparison(own)
    return shown


def comparison(benchmarks: Sequence[Mapping[str, Any]]) -> Optional[View]:
    """{before, after, change (share), verdict, reason}; None without any measurement."""
    by_phase = {str(item.get("phase")): _figures(item) for item in benchmarks}
    before, after = by_phase.get("before"), by_phase.get("after")
    if not before and not after:
        return None
    change = _change(before, after)
    verdict, reason = _verdict(before, after)
    both = [item for item in (before, after) if item]
    top = max((_reach(item) for item in both), default=0.0)
    peak = max((tps for item in both for _, tps in item["curve"]), default=0.0)
    found = {"change": change, "verdict": verdict, "reason": reason, "top": top, "peak": peak}
    return {"before": before, "after": after, **found}


def _verdict(before: Optional[View], after: Optional[View]) -> Any:
    for name, item in (("before", before), ("after", after)):
        if item and not item["valid"]:
            return "invalid", f"the run {name} the change does not count: {item['message'] or item['reason']}"
    if not before or not after:
        return (
            "insufficient",
            f"there is no run {'before' if not before else 'after'} the change to compare with",
        )
    if before["settings"] != after["settings"]:
        return "invalid", "the two runs were asked for different settings, so they cannot be compared"
    return "insufficient", f"one run each is a look, not a proof: at least {MIN_PAIRS} pairs are needed"


def _figures(item: Mapping[str, Any]) -> View:
    shown: View = {key: item.get(key) for key in FIGURES}
    asked = shown.pop("asked") or {}
    shown["settings"] = {key: asked[key] for key in sorted(asked)}
    curve = [
        (float(line["t"]), float(line["tps"]))
        for line in item.get("intervals") or []
        if line.get("tps") is not None
    ]
    step = max(1, -(-len(curve) // CURVE_POINTS))
    shown["curve"] = [list(point) for point in curve[::step]]
    return shown


def _reach(item: View) -> float:
    spread = item["spread"] or {}
    return max(float(item["tps"] or 0), float(spread.get("p90") or 0))


def _change(before: Optional[View], after: Optional[View]) -> Optional[float]:
    if not before or not after or not before["valid"] or not after["valid"] or not before["tps"]:
        return None
    return round(float(after["tps"] or 0) / float(before["tps"]) - 1, 4)


def summary(shown: View) -> View:
    """What ``summary.json`` holds: the view without the curves."""
    return {**shown, "hosts": [_lean(host) for host in shown["hosts"]]}


def _lean(host: View) -> View:
    return {**host, "instances": [_without_curves(instance) for instance in host["instances"]]}


def _without_curves(instance: View) -> View:
    found = instance["comparison"]
    if not found:
        return instance
    lean = {
        phase: {key: value for key, value in item.items() if key != "curve"} if item else None
        for phase, item in (("before", found["before"]), ("after", found["after"]))
    }
    return {**instance, "comparison": {**found, **lean}}
