# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress line of a benchmark: host, instance, phase, test, percent, transactions/s, time left."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from .sysbench_report import parse

PLAIN_STEP = 15.0  # seconds between lines where a line cannot be rewritten


class Progress:
    """Says when a line is due and what it says; ``updating`` means one line is rewritten at every poll."""

    def __init__(
        self, host: str, instance: str, phase: str, test: str, duration: float, updating: bool
    ) -> None:
        self.duration, self.updating = duration, updating
        self._what = printable(f"{host} {instance}: {phase} {test}")
        self._shown = 0.0

    def due(self, elapsed: float) -> bool:
        """Whether to show a line now; remembers that it was shown."""
        step = 0.0 if self.updating else max(PLAIN_STEP, self.duration / 10)
        late = elapsed - self._shown >= step
        if late:
            self._shown = elapsed
        return late

    def text(self, elapsed: float, tps: Optional[float]) -> str:
        """The line; past the requested time it says that the end is awaited."""
        share = min(elapsed / self.duration, 1.0) if self.duration else 1.0
        rate = "starting" if tps is None else f"{tps:.0f} tps"
        left = self.duration - elapsed
        rest = f"{left:.0f} s left" if left >= 0.5 else "waiting for its end"
        return f"{self._what} {share:4.0%}, {rate}, {rest}"

    def end(self, benchmark: Mapping[str, Any]) -> str:
        """The last line: the figure with its spread, or why it does not count."""
        if not benchmark["valid"]:
            return printable(f"{self._what}: does not count: {benchmark['message'] or benchmark['reason']}")
        within = benchmark["spread"]
        spread = f" ({within['p10']:.0f} to {within['p90']:.0f} within the run)" if within else ""
        return f"{self._what}: {benchmark['tps'] or 0:.0f} tps{spread}"


def current(tail: str) -> Optional[float]:
    """Transactions/s of the last whole interval line in the end of a raw output."""
    rates = [line.get("tps") for report in parse(tail) for line in report["intervals"]]
    return rates[-1] if rates else None


def printable(text: str) -> str:
    """``text`` in ASCII without control characters, for a terminal or a log."""
    return "".join(mark if " " <= mark <= "~" else "?" for mark in text)
