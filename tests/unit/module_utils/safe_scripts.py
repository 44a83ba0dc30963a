"""The mysqld_safe scripts that were written for the tests, one for each way to start the server."""

from __future__ import annotations

from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures" / "mysqld_safe"
SCRIPTS = sorted(path.name for path in FIXTURES.glob("family-*.sh"))


def fixture_text(name: str) -> str:
    return (FIXTURES / name).read_text()
