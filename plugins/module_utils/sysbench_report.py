# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of sysbench 1.0 as plain values: a line-state machine on section titles.

``parse(text)`` gives one dict per run found in the text. Keys (a key whose row was not printed is absent):

======================= ======== ==================================================================
key                     unit     meaning
======================= ======== ==================================================================
layout                           ``1.0`` or ``unknown`` (another generation of sysbench: not parsed)
version, kind                    as printed; ``sql``, ``cpu``, ``fileio`` or None
complete                         the report was printed to its last row
forced, unfinished      count    cut by ``--forced-shutdown``; transactions open at that moment
threads, target_rate    , 1/s    from the header
read write other total  count    statements
transactions, tps       , 1/s    ``queries, qps``, ``ignored_errors``, ``reconnects`` likewise
total_time_s, events    s, count
lat_{min,avg,max,sum}_ms ms      and ``lat_pct_ms`` of ``percentile`` (both None if switched off)
fair_events_*           count    ``fair_events_avg``, ``fair_events_stddev``; ``fair_time_*`` in s
intervals               list     {t s, threads, tps, qps, reads_s, writes_s, other_s, lat_ms, pct,
                                 errors_s, reconnects_s[, queue, concurrency][, eps]}
histogram               list     [upper bound ms, count]
checkpoints             list     blocks with the keys above and ``t``; then the last block covers only
                                 the time since the last checkpoint, though ``total_time_s`` is from the start
errors, error_numbers            FATAL and ALERT lines (the first 50), the server's error numbers in them
fatal                            a FATAL line was printed
warnings                         in words, sysbench's and the parser's own
======================= ======== ==================================================================
"""

from __future__ import annotations

import math
import re
from typing import Any, Callable, Dict, List, Optional, Tuple

Report = Dict[str, Any]
MESSAGES_KEPT = 50
_HEADER = re.compile(r"sysbench (\d[\w.-]*)")
_NUMBER = r"(-?[\d.]+|-?nan|-?inf)"
_INTERVAL = re.compile(
    r"\[ (?P<t>\d+)s \] thds: (?P<threads>\d+)"
    rf"(?: tps: (?P<tps>{_NUMBER}) qps: (?P<qps>{_NUMBER})"
    rf" \(r/w/o: (?P<reads_s>{_NUMBER})/(?P<writes_s>{_NUMBER})/(?P<other_s>{_NUMBER})\)"
    rf"| eps: (?P<eps>{_NUMBER})).*? lat \(ms,(?P<pct>\d+)%\): (?P<lat_ms>{_NUMBER})"
    rf"(?: err/s: (?P<errors_s>{_NUMBER}))?(?: reconn/s: (?P<reconnects_s>{_NUMBER}))?"
)
_QUEUE = re.compile(r"\[ (\d+)s \] queue length: (\d+),? concurrency: (\d+)")
_CHECKPOINT = re.compile(r"\[ *(\d+)s *\] Checkpoint report:")
_BAR = re.compile(r"\s*([\d.]+) \|\**\s+(\d+)$")
_ROW = re.compile(r"\s+([^:]+):\s+(\S.*)$")
_PERCENTILE = re.compile(r"(\d+)th percentile$")
_ERROR_NUMBERS = re.compile(r"(?:returned error|errno =|MySQL error:|\berror|\bErr|\bError) ?(\d{4})\b")
_SECTIONS = {
    "SQL statistics:": "sql",
    "General statistics:": "general",
    "Latency (ms):": "latency",
    "Threads fairness:": "fairness",
    "Latency histogram (values are in milliseconds)": "histogram",
    "CPU speed:": "cpu",
    "File operations:": "fileio",
    "Throughput:": "throughput",
}
_FOREIGN = ("OLTP test statistics:", "Test execution summary:", "events/s (eps):", "per-request statistics:")
_INT, _FLOAT = "int", "float"
_ROWS: Dict[Tuple[str, str], Tuple[Tuple[str, str], ...]] = {
    ("sql", "read"): (("read", _INT),),
    ("sql", "write"): (("write", _INT),),
    ("sql", "other"): (("other", _INT),),
    ("sql", "total"): (("total", _INT),),
    ("sql", "transactions"): (("transactions", _INT), ("tps", _FLOAT)),
    ("sql", "queries"): (("queries", _INT), ("qps", _FLOAT)),
    ("sql", "ignored errors"): (("ignored_errors", _INT),),
    ("sql", "reconnects"): (("reconnects", _INT),),
    ("general", "total time"): (("total_time_s", _FLOAT),),
    ("general", "total number of events"): (("events", _INT),),
    ("latency", "min"): (("lat_min_ms", _FLOAT),),
    ("latency", "avg"): (("lat_avg_ms", _FLOAT),),
    ("latency", "max"): (("lat_max_ms", _FLOAT),),
    ("latency", "sum"): (("lat_sum_ms", _FLOAT),),
    ("fairness", "events (avg/stddev)"): (("fair_events_avg", _FLOAT), ("fair_events_stddev", _FLOAT)),
    ("fairness", "execution time (avg/stddev)"): (("fair_time_avg", _FLOAT), ("fair_time_stddev", _FLOAT)),
    ("cpu", "events per second"): (("events_per_sec", _FLOAT),),
    ("fileio", "reads/s"): (("reads_s", _FLOAT),),
    ("fileio", "writes/s"): (("writes_s", _FLOAT),),
    ("fileio", "fsyncs/s"): (("fsyncs_s", _FLOAT),),
    ("throughput", "read, MiB/s"): (("read_mib_s", _FLOAT),),
    ("throughput", "written, MiB/s"): (("written_mib_s", _FLOAT),),
}
_HEADINGS: Tuple[Tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Number of threads: (\d+)"), "threads"),
    (re.compile(r"Target transaction rate: (\d+)/sec"), "target_rate"),
    (re.compile(r"Number of unfinished transactions on forced shutdown: (\d+)"), "unfinished"),
)


def finite(text: str) -> Optional[float]:
    """The number at the start of ``text`` (a unit may follow), None for nan, inf and no number."""
    found = re.match(r"-?\d+(?:\.\d+)?", text)
    return float(found.group()) if found and math.isfinite(float(found.group())) else None


def _new_report() -> Report:
    lists: Report = {name: [] for name in ("intervals", "checkpoints", "errors", "error_numbers", "warnings")}
    return dict(lists, layout="1.0", version=None, kind=None, complete=False, forced=False, fatal=False)


class _Machine:
    """Feeds lines into the current report; ``reports`` has every report that was begun."""

    def __init__(self) -> None:
        self.reports: List[Report] = []
        self.section: Optional[str] = None
        self.block: Report = {}
        self.dropped = 0

    @property
    def report(self) -> Report:
        if not self.reports:
            self._begin()
        return self.reports[-1]

    def _begin(self) -> None:
        report = _new_report()
        self.reports.append(report)
        self.section, self.block, self.dropped = None, report, 0

    def feed(self, line: str) -> None:
        """One line without its end; the first handler that knows it wins, unknown lines are passed over."""
        if line:
            for handler in _HANDLERS:
                if handler(self, line):
                    return

    def interval(self, line: str) -> bool:
        if not line.startswith("["):
            return False
        found = _INTERVAL.match(line)
        if found:
            values = {key: finite(text) for key, text in found.groupdict().items() if text is not None}
            for key in ("t", "threads", "pct"):
                values[key] = int(values[key] or 0)
            self.report["intervals"].append(values)
        return bool(found) or self._queue(line) or self._checkpoint(line)

    def _queue(self, line: str) -> bool:
        found = _QUEUE.match(line)
        if found and self.report["intervals"] and self.report["intervals"][-1]["t"] == int(found.group(1)):
            self.report["intervals"][-1].update(queue=int(found.group(2)), concurrency=int(found.group(3)))
        return bool(found)

    def _checkpoint(self, line: str) -> bool:
        found = _CHECKPOINT.match(line)
        if found:
            self.block = {"t": int(found.group(1))}
            self.report["checkpoints"].append(self.block)
        return bool(found)

    def header(self, line: str) -> bool:
        found = _HEADER.match(line)
        if found:
            self._begin()
            self.report["version"] = found.group(1).rstrip(".")
        return bool(found)

    def message(self, line: str) -> bool:
        level = line.partition(":")[0]
        if level in ("FATAL", "ALERT"):
            self._error(line, level == "FATAL")
        elif level == "WARNING" and len(self.report["warnings"]) < MESSAGES_KEPT:
            self.report["warnings"].append(line[len("WARNING:") :].strip())
        return level in ("FATAL", "ALERT", "WARNING", "DEBUG") or line.startswith("(last message repeated")

    def _error(self, line: str, fatal: bool) -> None:
        report = self.report
        report["fatal"] = report["fatal"] or fatal
        report["forced"] = report["forced"] or "forcing shutdown" in line
        if len(report["errors"]) < MESSAGES_KEPT:
            report["errors"].append(line)
        known = report["error_numbers"]
        known.extend(n for n in map(int, _ERROR_NUMBERS.findall(line)) if n not in known)

    def title(self, line: str) -> bool:
        section = _SECTIONS.get(line.rstrip())
        if section:
            self._enter(section)
        elif any(title in line for title in _FOREIGN):
            self.report["layout"] = "unknown"
        return section is not None

    def _enter(self, section: str) -> None:
        self.section = section
        if section == "sql" and "fair_time_avg" in self.block:  # the checkpoint's block has ended
            self.block = self.report
        if section in ("sql", "cpu", "fileio"):
            self.report["kind"] = section
        if section == "histogram":
            self.block["histogram"] = []

    def heading(self, line: str) -> bool:
        if not line[0].isalpha():
            return False
        for pattern, key in _HEADINGS:
            found = pattern.match(line)
            if found:
                self.report[key] = int(found.group(1))
                return True
        return False

    def row(self, line: str) -> bool:
        if self.section == "histogram":
            found = _BAR.match(line)
            if found:
                self.block["histogram"].append([float(found.group(1)), int(found.group(2))])
            return bool(found)
        found = _ROW.match(line)
        if self.section and found:
            self._store(self.section, found.group(1), found.group(2))
        return bool(self.section and found)

    def _store(self, section: str, label: str, text: str) -> None:
        if section == "latency" and "percentile" in label:
            rank = _PERCENTILE.match(label)
            self.block["percentile"] = int(rank.group(1)) if rank else None
            self.block["lat_pct_ms"] = finite(text) if rank else None
            return
        names = _ROWS.get((section, label), ())
        values = [value for value in re.split(r"[\s(/]+", text) if value]
        for (name, kind), value in zip(names, values):
            number = finite(value)
            self.block[name] = int(number) if kind == _INT and number is not None else number


_HANDLERS: Tuple[Callable[[_Machine, str], bool], ...] = (
    _Machine.interval,
    _Machine.header,
    _Machine.message,
    _Machine.title,
    _Machine.heading,
    _Machine.row,
)


def parse(text: str) -> List[Report]:
    """Every report in ``text``, in order; an empty list for a text without any."""
    machine = _Machine()
    for line in text.splitlines():
        machine.feed(line)
    for report in machine.reports:
        _finish(report)
    return machine.reports


def _finish(report: Report) -> None:
    needed = ("total_time_s", "events", "lat_sum_ms", "fair_events_avg", "fair_time_stddev")
    known = report["layout"] == "1.0"
    report["complete"] = known and all(report.get(key) is not None for key in needed)
    if not known:
        report["warnings"].append("the report has the layout of another generation of sysbench")
    if report["checkpoints"]:
        report["warnings"].append("the last block covers only the time since the last checkpoint")
