# SPDX-License-Identifier: GPL-3.0-or-later
"""A server, its client and its init script, small enough for a unit test and real enough to be restarted.

The server is a copy of ``bash`` that reads from a silent pipe in its data directory. What the script does at a start is the word
in its settings file: ``well``, ``crash`` (ends with 1), ``hang`` (a server that never makes its socket),
``later`` (crashes after a moment).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Dict, Optional

SCRIPT = """#!/bin/sh
cd {datadir} || exit 1
launch() {{ {exe} -c "read -t $1 x <>pipe" & echo $! >pid; }}
stop() {{ rm -f {socket}; pid=$(cat pid); kill "$pid"; while readlink "/proc/$pid/exe" >/dev/null; do sleep 0.01; done; }}
start() {{
    case $(head -n 1 {settings}) in
    crash) echo "[ERROR] it cannot work" >&2; exit 1 ;;
    hang) launch 600 ;;
    later) launch 0.7; touch {socket} ;;
    *) launch 600; sleep 0.1; touch {socket} ;;
    esac
}}
case $1 in start) start ;; stop) stop ;; restart) stop; start ;; esac
"""
CLIENT = """#!/bin/sh
[ -e {socket} ] || {{ echo "ERROR 2002 (HY000): no socket" >&2; exit 1; }}
[ "$(cat {settings})" = denied ] && {{ echo "ERROR 1045 (28000): Access denied for user" >&2; exit 1; }}
cat >/dev/null
printf '1\\n1\\nfleet_mysqltune_mark\\n0\\n'
"""


class FakeServer:
    """A running fake server under ``directory``; ``stop`` ends it for good."""

    def __init__(self, directory: Path) -> None:
        self.datadir = directory / "data"
        self.datadir.mkdir(parents=True)
        self.exe = directory / "mysqld"
        shutil.copy(os.path.realpath("/bin/bash"), self.exe)
        os.mkfifo(self.datadir / "pipe")
        self.socket = directory / "server.sock"
        self.settings = directory / "settings"
        self.settings.write_text("well\n")
        self.script = self._script(directory / "init", SCRIPT)
        self.client = self._script(directory / "client", CLIENT)
        subprocess.run([self.script, "start"], check=True)

    def _script(self, path: Path, text: str) -> str:
        names = {"datadir": self.datadir, "exe": self.exe, "socket": self.socket, "settings": self.settings}
        path.write_text(text.format(**names))
        path.chmod(0o755)
        return str(path)

    def pids(self) -> Dict[int, str]:
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{name}/exe") == str(self.exe):
                    found[int(name)] = os.readlink(f"/proc/{name}/cwd")
            except OSError:
                continue
        return found

    def observed(self, library: Optional[str] = None, **changes: Any) -> Dict[str, Any]:
        """Return the instance as ``mysqld_info`` would."""
        (pid,) = self.pids()
        launcher = {"kind": "sysv", "unit": None, "script": None, "init_script": self.script}
        observed = {
            "name": str(self.datadir),
            "pid": pid,
            "exe": str(self.exe),
            "user": "root",
            "launcher": launcher,
            "datadir": str(self.datadir),
            "socket": str(self.socket),
            "sql": {"client": self.client},
            "library": library,
        }
        return dict(observed, **changes)

    def stop(self) -> None:
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)


def one_script(path: Path, *servers: FakeServer) -> Dict[str, Any]:
    """Return the launcher that starts all of these with one init script, as ``mysqld_multi`` does."""
    calls = "".join(f"{server.script} $1 || failed=1\n" for server in servers)
    path.write_text(f"#!/bin/sh\nfailed=0\n{calls}exit $failed\n")
    path.chmod(0o755)
    return {"kind": "sysv", "unit": None, "script": None, "init_script": str(path)}
