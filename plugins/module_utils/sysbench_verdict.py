# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sysbench run is worth: whether its figures may be used, and how they spread within the run."""

from __future__ import annotations

import statistics
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

MAX_IGNORED = 0.01  # share of transactions that may have been repeated after an ignored error
TOLERANCE = 0.1  # of the requested time
SLACK = 1.0  # seconds: threads end their last transaction
SETTLED_AFTER = 5  # seconds of interval lines that are left out
DRIFT = 0.05


class Asked(NamedTuple):
    """What was asked of the run, 0 for no limit; ``killed_after`` in s if the time-out struck."""

    duration: float
    events: int = 0
    killed_after: Optional[float] = None


class Judgement(NamedTuple):
    """``reason`` is one word, None when ``valid``; ``message`` says it in a sentence."""

    valid: bool
    reason: Optional[str]
    message: str


def judge(reports: Sequence[Mapping[str, Any]], rc: int, asked: Asked) -> Judgement:
    """Valid: rc 0, no FATAL, exactly one complete report, the requested time, events, few ignored errors."""
    found = _ending(reports, rc, asked) or _shape(reports) or _content(reports[0], asked)
    return found or Judgement(True, None, "")


def _no(reason: str, message: str) -> Judgement:
    return Judgement(False, reason, message)


def _ending(reports: Sequence[Mapping[str, Any]], rc: int, asked: Asked) -> Optional[Judgement]:
    errors = [line for report in reports for line in report["errors"]]
    said = f": {errors[0]}" if errors else ""
    if asked.killed_after is not None:
        return _no("timeout", f"sysbench did not end within {asked.killed_after:g} s and was killed{said}")
    if any(report["forced"] for report in reports) or rc == 2:
        return _no(
            "forced_shutdown", "sysbench had to force its end: transactions hung past the requested time"
        )
    if rc < 0:
        return _no("killed", f"sysbench was ended by signal {-rc}")
    if rc != 0:
        return _no("exit_code", f"sysbench ended with code {rc}{said or ' and printed no error'}")
    if any(report["fatal"] for report in reports):
        return _no("fatal", f"sysbench printed an error though its exit code was 0{said}")
    return None


def _shape(reports: Sequence[Mapping[str, Any]]) -> Optional[Judgement]:
    if not reports:
        return _no("no_report", "sysbench printed no report")
    if len(reports) > 1:
        return _no("several_reports", f"one report was expected and {len(reports)} were found")
    if reports[0]["layout"] == "unknown":
        return _no("unknown_layout", "the report has the layout of another generation of sysbench")
    if not reports[0]["complete"]:
        return _no("incomplete", "the report is cut off before its last line")
    return None


def _content(report: Mapping[str, Any], asked: Asked) -> Optional[Judgement]:
    took, events = float(report["total_time_s"]), int(report["events"])
    if events < 1:
        return _no("no_events", "sysbench ended without one transaction")
    if asked.duration and took > asked.duration * (1 + TOLERANCE) + SLACK:
        return _no(
            "overrun", f"the run took {took:.1f} s instead of {asked.duration:g} s: the server stalled"
        )
    reached = bool(asked.events) and events >= asked.events
    if asked.duration and not reached and took < asked.duration * (1 - TOLERANCE):
        return _no("ended_early", f"the run ended after {took:.1f} s instead of {asked.duration:g} s")
    done, ignored = int(report.get("transactions") or 0), int(report.get("ignored_errors") or 0)
    if ignored > MAX_IGNORED * max(done, 1):
        return _no("ignored_errors", f"{ignored} errors were ignored in {done} transactions (limit 1 %)")
    if report.get("reconnects"):
        return _no("reconnects", f"the connection was lost {report['reconnects']} times")
    return None


def spread(
    intervals: Sequence[Mapping[str, Any]], settled_after: int = SETTLED_AFTER
) -> Optional[Dict[str, Any]]:
    """How transactions/s moved within one run: {samples, median, p10, p90, mean, stdev, cv, drift}.

    From the interval lines after the first ``settled_after`` seconds. Neighbouring seconds depend on each
    other, so these are no independent repeats and say nothing about the next run. ``drift`` is the last third
    over the first third, less one. None below six lines.
    """
    values = [
        float(line["tps"]) for line in intervals if line["t"] > settled_after and line.get("tps") is not None
    ]
    if len(values) < 6:
        return None
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    return {
        "what": "spread within the run",
        "samples": len(values),
        "median": round(statistics.median(values), 2),
        "p10": round(tenths[0], 2),
        "p90": round(tenths[-1], 2),
        "mean": round(mean, 2),
        "stdev": round(deviation, 2),
        "cv": round(deviation / mean, 4) if mean else None,
        "drift": _drift(values),
    }


def _drift(values: Sequence[float]) -> Optional[float]:
    third = len(values) // 3
    first, last = statistics.fmean(values[:third]), statistics.fmean(values[-third:])
    return round(last / first - 1, 4) if first else None


def remarks(report: Mapping[str, Any], within: Optional[Mapping[str, Any]]) -> List[str]:
    """What a careful reader should know about a valid run, in words."""
    found: List[str] = []
    if within and within["drift"] is not None and abs(within["drift"]) > DRIFT:
        change = within["drift"] * 100
        found.append(f"the last third of the run was {change:+.0f} % against the first third: not settled")
    stalled = [line["t"] for line in report["intervals"] if line.get("tps") == 0]
    if stalled:
        found.append(f"no transaction ended in {len(stalled)} interval(s), the first at {stalled[0]} s")
    if report.get("ignored_errors"):
        found.append(f"{report['ignored_errors']} ignored errors (deadlocks)")
    return found
