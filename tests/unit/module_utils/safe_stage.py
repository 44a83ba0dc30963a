"""A stage for mysqld_safe scripts: a stub server and stub helpers that write down their environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures" / "mysqld_safe"
SCRIPTS = sorted(path.name for path in FIXTURES.glob("family-*.sh"))
SHELLS = [shell for shell in (["dash"], ["bash"], ["mksh"], ["busybox", "sh"]) if shutil.which(shell[0])]
HELPERS = ("date", "env", "logger", "nice", "nohup", "numactl", "rm", "sed", "true")

_RECORD = """#!/bin/dash
printf '%s\\n' "{name} [$LD_PRELOAD]" >> "$STAGE/record"
{action}
"""
_SERVER = """
PATH=/usr/bin:/bin
if test -f "$STAGE/once"; then rm "$STAGE/once"; echo 99999999 > "$STAGE/server.pid"; echo crashed; exit 1; fi
printf '%s\\n' "$@" > "$STAGE/argv"
echo ended
exit 0
"""


class Ran(NamedTuple):
    """What was recorded: the server's preload at each start, the helpers' preloads, the server's arguments."""

    server: list[str]
    helpers: dict[str, set[str]]
    argv: list[str]
    out: str
    err: str


class Stage:
    def __init__(self, directory: Path) -> None:
        self.path = directory
        bin_directory = directory / "bin"
        bin_directory.mkdir(parents=True)
        for name in HELPERS:
            real = shutil.which(name)
            action = {"numactl": 'shift; exec "$@"', "logger": 'exec cat >> "$STAGE/syslog"'}
            self._stub(bin_directory / name, name, action.get(name, f'exec {real} "$@"'))
        self._stub(directory / "mysqld", "SERVER", _SERVER)

    def _stub(self, path: Path, name: str, action: str) -> None:
        path.write_text(_RECORD.format(name=name, action=action))
        path.chmod(0o755)

    def run(
        self, text: str, shell: list[str], *arguments: str, inherited: str = "", crash: bool = True
    ) -> Ran:
        """Run a script; with ``crash`` the server's first start fails, so that the restart loop runs."""
        for name in ("record", "argv"):
            (self.path / name).unlink(missing_ok=True)
        script = self.path / "script"
        script.write_text(text)
        if crash:
            (self.path / "once").touch()
        environment = {"PATH": f"{self.path}/bin:{os.environ['PATH']}", "STAGE": str(self.path)}
        environment.update({"LD_PRELOAD": inherited} if inherited else {})
        done = subprocess.run(
            [*shell, str(script), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return self._recorded(done.stdout, done.stderr)

    def _recorded(self, out: str, err: str) -> Ran:
        record = self.path / "record"
        lines = record.read_text().splitlines() if record.exists() else []
        server, helpers = [], {}
        for name, _, preload in (line.partition(" ") for line in lines):
            if name == "SERVER":
                server.append(preload[1:-1])
            else:
                helpers.setdefault(name, set()).add(preload[1:-1])
        argv = self.path / "argv"
        return Ran(server, helpers, argv.read_text().splitlines() if argv.exists() else [], out, err)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "stage")


def fixture_text(name: str) -> str:
    return (FIXTURES / name).read_text()
