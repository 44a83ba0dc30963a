# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of ``live``; and with --write-docs the table of docs/faults.md, from what has just been run.

A test names its row with ``@pytest.mark.fault("disk full")``; its docstring says what happens then.
"""

from __future__ import annotations

import inspect
import re
import time
from collections import Counter
from typing import Any, NamedTuple

import pytest
from live import ROOT, crash, deb12, deb13, lab, safe12
from on_host import bundle

__all__ = ["bundle", "crash", "deb12", "deb13", "lab", "safe12"]

PAGE = ROOT / "docs/faults.md"
MARKS = re.compile(r"(<!-- results: begin -->\n).*?(<!-- results: end -->)", re.DOTALL)


class Row(NamedTuple):
    """One line of the table: a fault, what happens, and the test that shows it."""

    fault: str
    outcome: str
    test: str
    tier: str


class Results:
    """Collects the outcome of each test and writes its row at the end; the rows of other tests stay."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._outcomes: dict[Row, Counter[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._rows = {item.nodeid: row(item) for item in session.items}
        self._outcomes = {named: Counter() for named in self._rows.values()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[self._rows[report.nodeid]][report.outcome] += 1

    def pytest_sessionfinish(self) -> None:
        header = ["| fault | what happens | test | tier | last result |", "|---|---|---|---|---|"]
        page = PAGE.read_text(encoding="utf-8")
        rows = {line.split(" | ")[2]: line for line in page.splitlines() if line.count("`test_") == 1}
        day = time.strftime("%Y-%m-%d")
        for named, outcomes in self._outcomes.items():
            rows[named.test] = f"| {' | '.join([*named, f'{day}: {_counted(outcomes)}'])} |"
        text = "\n".join([*header, *rows.values(), ""])
        PAGE.write_text(MARKS.sub(lambda m: m[1] + text + m[2], page), encoding="utf-8")


def _counted(outcomes: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))


def row(item: Any) -> Row:
    """Return the row of a test; all the variants of a parametrized one share it."""
    marker = item.get_closest_marker("fault")
    assert marker, f"{item.nodeid} names no fault: @pytest.mark.fault(...)"
    outcome = " ".join((inspect.getdoc(item.function) or "").split())
    tier = "quick" if item.get_closest_marker("quick") else "full"
    return Row(marker.args[0], outcome, f"`{item.path.name}::{item.originalname}`", tier)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-docs", action="store_true", help="write the results into docs/faults.md")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--write-docs"):
        config.pluginmanager.register(Results())
