# SPDX-License-Identifier: GPL-3.0-or-later
"""Run sysbench on a host and show how it goes: the module starts it, ``tail`` follows, the module reads it.

While sysbench measures, none of the toolkit's Python runs on the host: each poll is one ``tail`` of the
raw output through the connection that is open anyway.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench import slug
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench_progress import Progress, current

MODULE = "fleet.mysqltune.sysbench"
RAW = "sysbench.txt"
POLL = 5.0  # seconds
ENDED = "fleet-mysqltune-ended"


class ActionModule(ActionBase):
    """Arguments and result of the module; ``command: run`` shows progress unless it goes to the background."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Pass everything but a run in the foreground straight to the module."""
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        fetch_to = arguments.pop("fetch_to", None)
        foreground = arguments.get("command") == "run" and not arguments.get("background")
        if not foreground or self._task.check_mode:
            return self._module(arguments, task_vars)
        started = self._module(dict(arguments, background=True), task_vars)
        if started.get("failed") or "running" not in started:
            return started
        progress = self._progress(arguments, task_vars or {})
        self._follow(started, progress)
        result = self._module(dict(arguments, command="result", background=False), task_vars)
        if result.get("failed"):
            return result
        Display().display(progress.end(result["benchmark"]))
        fetched = self._fetch(result, artifact(Path(fetch_to), arguments), task_vars) if fetch_to else []
        return dict(result, changed=True, fetched=fetched)

    def _fetch(self, result: dict[str, Any], raw: Path, task_vars: dict[str, Any] | None) -> list[str]:
        """Keep the raw text and the parsed result on the controller; return their paths."""
        source = {"src": f"{result['directory']}/{RAW}"}
        read = self._execute_module(
            module_name="ansible.builtin.slurp", module_args=source, task_vars=task_vars
        )
        if read.get("failed"):
            raise AnsibleActionFail(f"the raw output cannot be fetched: {read.get('msg')}")
        parsed = raw.with_suffix(".json")
        try:
            raw.parent.mkdir(parents=True, exist_ok=True)
            raw.write_bytes(base64.b64decode(read["content"]))
            parsed.write_text(json.dumps(result["benchmark"], indent=1, sort_keys=True) + "\n")
        except OSError as error:
            raise AnsibleActionFail(f"the result cannot be kept in {raw.parent}: {error.strerror}") from error
        return [str(raw), str(parsed)]

    def _module(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        return dict(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars))

    def _progress(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> Progress:
        alone = len(task_vars.get("ansible_play_batch") or []) < 2
        return Progress(
            host=str(task_vars.get("inventory_hostname", "")),
            instance=str(arguments.get("instance", "mysqld")),
            phase=str(arguments.get("phase", "run")),
            test=str(arguments.get("test", "oltp_read_write")),
            duration=float(arguments.get("duration") or 60),
            updating=alone and on_terminal(),
        )

    def _follow(self, started: dict[str, Any], progress: Progress) -> None:
        """Show a line per poll until the run has ended or must have."""
        begun = time.monotonic()
        deadline = begun + float(started["running"]["timeout"]) + 30
        raw, ended = shlex.quote(started["raw"]), shlex.quote(started["ended"])
        command = f"tail -c 600 {raw}; test -e {ended} && echo {ENDED}"
        self._show(progress.text(0.0, None), progress.updating)
        while time.monotonic() < deadline:
            time.sleep(max(0.5, min(POLL, progress.duration + 0.7 - (time.monotonic() - begun))))
            said = self._tail(command)
            if said.rstrip().endswith(ENDED):
                break
            elapsed = time.monotonic() - begun
            if progress.due(elapsed):
                self._show(progress.text(elapsed, current(said)), progress.updating)
        if progress.updating:
            Display().display("\r\x1b[K", newline=False, screen_only=True)

    def _tail(self, command: str) -> str:
        """Return the end of the raw output; a lost connection counts as silence, not as the end."""
        try:
            # With data for its standard input, ssh asks for no terminal, which a host may not grant.
            return str(self._low_level_execute_command(command, in_data=b"\n").get("stdout", ""))
        except AnsibleConnectionFailure:
            return ""

    @staticmethod
    def _show(text: str, updating: bool) -> None:
        if updating:
            Display().display(f"\r\x1b[K{text}", newline=False, screen_only=True)
        else:
            Display().display(text)


def artifact(base: Path, arguments: dict[str, Any]) -> Path:
    """Return where the raw text is kept, from our own arguments: no answer of a host names a path here."""
    phase, instance = arguments.get("phase", "run"), arguments.get("instance", "mysqld")
    return base.absolute() / slug(str(phase)) / slug(str(instance)) / RAW


def on_terminal() -> bool:
    """Tell whether the main process writes to a terminal; a worker has no standard output of its own."""
    try:
        target = os.readlink(f"/proc/{os.getppid()}/fd/1")
    except OSError:
        return False
    return target.startswith(("/dev/pts/", "/dev/tty"))
