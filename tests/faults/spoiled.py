# SPDX-License-Identifier: GPL-3.0-or-later
"""A library that spoils the server which starts with it, and what holds once the host has put itself back."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from live import BYTES, ROOT, STATE, Done, Host, Lab, Survivors

LIBRARY = "/usr/local/lib/libbad.so"


def put_library(host: Host, *flags: str) -> None:
    """Build crash.c with these flags and put it on the host."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libbad.so"
        source = Path(__file__).with_name("crash.c")
        subprocess.run(["cc", "-shared", "-fPIC", *flags, "-o", library, source], check=True)
        host.copy(library, LIBRARY)


def result(host: Host, run_id: str) -> dict[str, Any]:
    """Return what the transaction has written down on the host."""
    return dict(json.loads(host.sh(f"cat {STATE}/runs/{run_id}/result.json")))


class Spoiled:
    """A host with a bad library, whose server is written to from now on."""

    def __init__(self, lab: Lab, host: Host, *flags: str) -> None:
        put_library(host, *flags)
        self.lab, self.host = lab, host
        self.before = host.tree(BYTES)
        self.rows = Survivors(host)

    def tune(self, **variables: Any) -> Done:
        return self.lab.tune(self.host.name, allocator_name=LIBRARY, tuning_run_id="spoiled", **variables)

    def assert_restored(self, done: Done, reason: str, *words: str) -> None:
        """The run failed and says why; bytes, process and rows are those of before; nothing is left to undo."""
        assert done.rc != 0 and done.counted(self.host.name, "failed") == 1, done.out
        assert not [word for word in words if word not in done.said], done.out
        ended = result(self.host, "spoiled")
        assert (ended["state"], ended["reason"]) == ("restored", reason), ended
        assert self.host.tree(BYTES) == self.before
        assert not self.host.effective("libbad")
        assert self.rows.lost() == ""


def module(lab: Lab, host: Host, name: str, **arguments: Any) -> dict[str, Any]:
    """Run one module on the host and return its result."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["ansible", "-i", lab.inventory, host.name, "-m", f"fleet.mysqltune.{name}", "-t", folder]
        given = ["-a", json.dumps(arguments)] if arguments else []
        subprocess.run([*command, *given], cwd=ROOT, capture_output=True, check=False, timeout=240)
        return dict(json.loads((Path(folder) / host.name).read_text()))


def staged(lab: Lab, host: Host, run_id: str, library: str) -> list[dict[str, Any]]:
    """Do what a run does up to its restart: take the lease, deliver the library; return what is to be restarted."""
    (instance,) = module(lab, host, "mysqld_info")["mysqld"]["instances"]
    module(lab, host, "tuning_journal", run_id=run_id, state="opened")
    module(lab, host, "systemd_preload", run_id=run_id, unit=instance["launcher"]["unit"], library=[library])
    return [dict(instance, library=library)]
