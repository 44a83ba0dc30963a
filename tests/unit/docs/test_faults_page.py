"""The page about faults has a row for each test that injects one, and every row passed when it last ran."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/faults.md").read_text(encoding="utf-8")


def test_each_fault_test_is_a_row_and_each_row_a_test():
    tests = {
        f"{path.name}::{name}"
        for path in (ROOT / "tests/faults").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert set(re.findall(r"\| `(test_\w+\.py::test_\w+)` \|", PAGE)) == tests


def test_each_row_passed_when_it_last_ran():
    rows = [line for line in PAGE.splitlines() if "`test_" in line]
    assert rows and all(re.search(r"\| \d{4}-\d\d-\d\d: \d+ passed \|$", row) for row in rows)
