# SPDX-License-Identifier: GPL-3.0-or-later
"""A stage for mysqld_safe scripts: a stub server and stub helpers that write down what they were given."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
SHELLS = [shell for shell in (["dash"], ["bash"], ["mksh"], ["busybox", "sh"]) if shutil.which(shell[0])]
HELPERS = (
    *(
        "basename",
        "cat",
        "chmod",
        "chown",
        "cut",
        "date",
        "dirname",
        "env",
        "expr",
        "grep",
        "head",
        "hostname",
        "id",
    ),
    *(
        "logger",
        "mariadbd-safe-helper",
        "mkdir",
        "mysqld_safe_helper",
        "nice",
        "nohup",
        "numactl",
        "ps",
        "rm",
        "sed",
        "sleep",
        "touch",
        "tr",
        "true",
        "uname",
        "wc",
    ),
)
SERVER = """#!/bin/dash
unset LD_PRELOAD
PATH=/usr/bin:/bin
for word; do
  case $word in --log_error=* | --log-error=*) log=${word#*=} ;; esac
done
for word; do
  case $word in
    --wsrep_recover* | --wsrep-recover*)
      echo "WSREP: Recovered position: 00000000-0000-0000-0000-000000000000:-1" >>"$log"
      exit 0 ;;
  esac
done
if test -f "$STAGE/once"; then
  rm "$STAGE/once"
  for pid in "$STAGE/server.pid" "$STAGE/data/server.pid"; do echo 99999999 >"$pid"; done
  echo crashed
  exit 1
fi
rm -f "$STAGE/server.pid" "$STAGE/data/server.pid"
printf '%s\\n' "$@" >"$STAGE/argv"
echo ended
: >"$STAGE/ended"
"""
LOGGER = """#!/bin/dash
exec cat >>"$STAGE/syslog"
"""


@functools.cache
def _recorder() -> Path:
    """Compile the program that stands for everything, once."""
    program = Path(tempfile.mkdtemp(prefix="recorder")) / "recorder"
    atexit.register(shutil.rmtree, program.parent, ignore_errors=True)
    subprocess.run(["cc", "-O1", "-static", "-o", program, HERE / "recorder.c"], check=True)
    return program


class Given(NamedTuple):
    """What a process was given: its LD_PRELOAD, and the allocator's variable MALLOC_CONF."""

    preload: str
    variable: str


class Ran(NamedTuple):
    """What was written down: the server at each start, the helpers, the server's arguments, what was printed."""

    server: list[Given]
    helpers: dict[str, set[Given]]
    argv: list[str]
    out: str
    err: str

    @property
    def preloads(self) -> set[str]:
        """The values of LD_PRELOAD that helpers were given."""
        return {given.preload for helper in self.helpers.values() for given in helper}


class Stage:
    """A directory that looks like an installation, in which scripts find nothing but stubs."""

    def __init__(self, directory: Path) -> None:
        self.path = directory
        for name in ("bin", "libexec", "real", "data/mysql", "share/mysql/english"):
            (directory / name).mkdir(parents=True)
        recorder = shutil.copy(_recorder(), directory / "recorder")
        for name in HELPERS:
            real = shutil.which(name)
            os.link(recorder, directory / "bin" / name)
            if real:
                (directory / "real" / name).symlink_to(real)
        for place in ("mysqld", "bin/mysqld", "libexec/mysqld", "libexec/mariadbd"):
            os.link(recorder, directory / place)
        for place in (
            "data/mysql/db.frm",
            "data/mysql/db.MYD",
            "share/mysql/english/errmsg.sys",
            "share/errmsg.sys",
        ):
            (directory / place).touch()
        self.program("server", SERVER)
        self.program("logger", LOGGER)
        self.program("bin/my_print_defaults", "#!/bin/dash\n")

    def program(self, name: str, text: str) -> None:
        """Put a program on the stage, in the place of another one."""
        path = self.path / name
        path.write_text(text)
        path.chmod(0o755)

    def run(
        self, text: str, shell: list[str], *arguments: str, inherited: str = "", crash: bool = True
    ) -> Ran:
        """Run a script; with ``crash`` the server's first start fails, so that the restart loop runs.

        With ``--nowatch`` the script leaves the server to itself: wait until that has written down its arguments.
        """
        for name in ("record", "argv", "ended", "server.pid", "data/server.pid", "once"):
            (self.path / name).unlink(missing_ok=True)
        script = self.path / "bin" / "mysqld_safe"
        script.write_text(text, encoding="utf-8", errors="surrogateescape")
        if crash:
            (self.path / "once").touch()
        environment = {
            "PATH": f"{self.path}/bin:{os.environ['PATH']}",
            "STAGE": str(self.path),
            "REAL": str(self.path / "real"),
        }
        environment.update({"LD_PRELOAD": inherited} if inherited else {})
        done = subprocess.run(
            [*shell, str(script), *arguments],
            cwd=self.path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
        deadline = time.monotonic() + 20
        while "--nowatch" in arguments and not (self.path / "ended").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._recorded(done.stdout, done.stderr)

    def _recorded(self, out: str, err: str) -> Ran:
        record, argv = self.path / "record", self.path / "argv"
        server: list[Given] = []
        helpers: dict[str, set[Given]] = {}
        for line in record.read_text().splitlines() if record.exists() else []:
            name, preload, variable = line.split("\t")
            if name in ("mysqld", "mariadbd"):
                server.append(Given(preload, variable))
            else:
                helpers.setdefault(name, set()).add(Given(preload, variable))
        return Ran(server, helpers, argv.read_text().splitlines() if argv.exists() else [], out, err)
