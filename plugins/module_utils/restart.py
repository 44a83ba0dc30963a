# SPDX-License-Identifier: GPL-3.0-or-later
"""Restart a server through the launcher that really starts it, and see what became of it.

Everything here only asks and looks; ``readiness`` waits.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .command import Completed
from .command import run as run_command
from .servers import Instance, bytes_moved, find, output_file, tree

RunCommand = Callable[..., Completed]

SYSTEMD = "/run/systemd/system"
"""This directory exists where systemd is the init (sd_booted(3))."""

TELLING = (
    re.compile(r"ld\.so|\[ERROR\]|got signal|assert|process exited|ended by|quit without|terminate called"),
    re.compile(r"error|fatal|abort|cannot|can't|fail|killed|timed out", re.IGNORECASE),
)
"""What says most about a failed start, and what says something."""

RECOVERING = re.compile(
    r"crash recovery|to recover|recover(ed|ing)|redo log|roll(ing|ed) back|apply(ing)? (a )?batch",
    re.IGNORECASE,
)
READY = "ready for connections"

UNPROTECTED = ("/bin/sh", "-c", 'echo 0 >/proc/self/oom_score_adj; exec "$@"', "sh")
"""A server must not inherit the protection of our program against the kernel's killer."""


class RestartError(Exception):
    """The launcher refused to act: its own words."""


class State(NamedTuple):
    """What the launcher says: ``pending``, ``up``, ``crash`` or ``hang``, and in which words."""

    phase: str
    words: str = ""


class Launcher(ABC):
    """What a launcher can do. ``restart`` and ``start`` return at once."""

    @abstractmethod
    def restart(self) -> None:
        """Begin to stop and start the server; ``RestartError`` if the launcher refuses."""

    @abstractmethod
    def start(self) -> None:
        """Begin to start the server that does not run; ``RestartError`` if the launcher refuses."""

    @abstractmethod
    def state(self) -> State:
        """Return what became of it."""

    @abstractmethod
    def kill(self) -> None:
        """End all of the launcher's processes now, and leave it fit for another start."""

    def prepare(self) -> None:  # noqa: B027 - not every launcher has something to prepare
        """Do what must not cost time once the server is down."""

    def busy(self) -> bool:
        """Tell whether the launcher is still at work on a start or a stop, whoever asked for it."""
        return False

    def progress(self) -> str:
        """Return what the launcher shows of a start that is under way, nothing if it shows nothing."""
        return ""

    def messages(self, since: float) -> str:  # noqa: ARG002 - for those that log
        """Return what the launcher logged since then (epoch)."""
        return ""


class Unit(Launcher):
    """A systemd service; also ``mysqld_safe`` and init scripts that run inside one.

    ``runs`` tells whether the server runs: an init script that lost patience leaves it behind, at work.
    """

    def __init__(
        self, name: str, run: RunCommand = run_command, runs: Callable[[], bool] = lambda: False
    ) -> None:
        self._name = name
        self._run = run
        self._runs = runs
        self._restarts: Optional[int] = None

    def prepare(self) -> None:
        """Forget earlier starts, which count against systemd's limit of starts in an interval."""
        self._run(["systemctl", "reset-failed", self._name], timeout=30.0)

    def restart(self) -> None:
        self._restarts = None
        self._systemctl("restart", "--no-block", self._name)

    def start(self) -> None:
        self._restarts = None
        self._systemctl("start", "--no-block", self._name)

    def state(self) -> State:
        """Read the unit. Each start by systemd itself counts: a crash loop looks fine in between."""
        shown = self._show()
        restarts = int(shown.get("NRestarts") or 0)
        if self._restarts is None or restarts < self._restarts:
            self._restarts = restarts
        phase = "up" if shown.get("ActiveState") == "active" else "pending"
        where = f"{self._name} is {shown.get('ActiveState')} ({shown.get('SubState')}, {shown.get('Result')})"
        if shown.get("SubState") == "auto-restart" or restarts > self._restarts:
            return State("crash", f"{where}, systemd starts it again and again")
        if shown.get("Job"):
            return State("pending", where)
        if shown.get("Result") == "timeout" and shown.get("ActiveState") in ("deactivating", "failed"):
            return State("hang", where)
        if shown.get("ActiveState") in ("failed", "inactive"):
            return State("up", f"{where}, but its server runs") if self._runs() else State("crash", where)
        return State(phase, where)

    def busy(self) -> bool:
        """A job may have been queued although ``systemctl`` failed: its answer may have been lost."""
        shown = self._show()
        return bool(shown.get("Job")) or shown.get("ActiveState") not in ("active", "inactive", "failed")

    def progress(self) -> str:
        """Return the status that the server tells systemd each time when it asks for more time to start."""
        shown = self._show()
        return shown.get("StatusText", "") if shown.get("ActiveState") == "activating" else ""

    def kill(self) -> None:
        """Stop without waiting: the job keeps systemd from another start, the signal ends the wait."""
        self._run(["systemctl", "stop", "--no-block", self._name], timeout=30.0)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            self._run(["systemctl", "kill", "--signal=SIGKILL", self._name], timeout=30.0)
            if self._show().get("ActiveState") in ("inactive", "failed"):
                return
            time.sleep(0.05)

    def messages(self, since: float) -> str:
        argv = ["journalctl", "--no-pager", "-q", "-o", "cat", "-n", "200", f"--unit={self._name}"]
        return self._run([*argv, f"--since=@{since:.3f}"], timeout=20.0).out

    def _systemctl(self, *words: str) -> None:
        done = self._run(["systemctl", *words], timeout=60.0)
        if done.rc:
            said = (done.err or done.out).strip().replace("\n", " ")
            raise RestartError(f"systemctl {words[0]} {self._name}: {said}")

    def _show(self) -> Dict[str, str]:
        argv = ["systemctl", "show", "-p", "ActiveState,SubState,Result,NRestarts,Job,StatusText", self._name]
        lines = self._run(argv, timeout=30.0).out.splitlines()
        shown = dict(line.split("=", 1) for line in lines if "=" in line)
        return dict(shown, Job="" if shown.get("Job") == "0" else shown.get("Job", ""))


class Script(Launcher):
    """An init script where no unit stands for it, with the servers that it starts."""

    def __init__(self, path: str, instances: Sequence[Instance], systemd: Optional[bool] = None) -> None:
        self._path = path
        self._instances = instances
        self._systemd = os.path.isdir(SYSTEMD) if systemd is None else systemd
        self._process: Optional[subprocess.Popen[bytes]] = None

    def restart(self) -> None:
        self._launch("restart")

    def start(self) -> None:
        self._launch("start")

    def _launch(self, word: str) -> None:
        """Start the script in a session of its own, and outside of our own cgroup."""
        outside = ["systemd-run", "--scope", "--quiet", "--collect", "--slice=system.slice", *UNPROTECTED]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/root"}
        try:
            self._process = subprocess.Popen(
                [*(outside if self._systemd else []), self._path, word],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise RestartError(f"{self._path} {word}: {error.strerror}") from error

    def state(self) -> State:
        code = self._process.poll() if self._process else 0
        if code is None:
            return State("pending", f"{self._path} is at work")
        if any(map(tree, self._instances)):
            return State("up", f"{self._path} ended with exit status {code}")
        return State("crash", f"{self._path} ended with exit status {code}, no server process is left")

    def busy(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End the script, then what restarts the server, then the server."""
        if self._process and self._process.poll() is None:
            _signal_group(self._process.pid)
            self._process.wait()
        for instance in self._instances:
            kill_tree(instance)


def kill_tree(instance: Instance) -> None:
    """End what restarts the server, then the server, and nothing else that its launcher started."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = tree(instance)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _signal_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def launcher_of(
    instances: Sequence[Instance], run: RunCommand = run_command, systemd: Optional[bool] = None
) -> Launcher:
    """Return the launcher of instances with the same ``starter``.

    ``RestartError`` with instructions where nothing would start the server again.
    """
    booted = os.path.isdir(SYSTEMD) if systemd is None else systemd
    first = instances[0]
    if first.service and booted:
        return Unit(first.service, run, lambda: any(map(tree, instances)))
    if first.init_script and first.kind in ("mysqld_safe", "sysv"):
        return Script(first.init_script, instances, booted)
    raise RestartError(
        f"{first.name} (launcher {first.kind}) has no unit and no init script: nothing would start it "
        "again after a stop. Run it from a systemd unit or from an init script, then run again."
    )


def launchers(instances: Sequence[Instance], run: RunCommand = run_command) -> Dict[str, Launcher]:
    """Return the launcher of each running instance by its name; what starts several is one launcher."""
    together: Dict[str, List[Instance]] = {}
    for instance in instances:
        if not instance.stopped:
            together.setdefault(instance.starter or instance.name, []).append(instance)
    return {
        member.name: launcher
        for members in together.values()
        for launcher in [launcher_of(members, run)]
        for member in members
    }


class Log:
    """What a server and its launcher say from now on: the error log after its present end, the journal."""

    def __init__(self, instance: Instance, launcher: Launcher) -> None:
        server = find(instance)
        self._file = output_file(server.pid) if server else None
        self._instance = instance
        self._launcher = launcher
        self._since = time.time()
        self._begin = self._size()
        self._end: Optional[int] = None
        self._launcher_text: Optional[str] = None
        self._progress: Tuple[object, ...] = ()

    def _size(self) -> int:
        return os.path.getsize(self._file) if self._file and os.path.exists(self._file) else 0

    def freeze(self) -> None:
        """Say no more than has been said until now."""
        self._end = self._size()
        self._launcher_text = self._launcher.messages(self._since)

    def recovering(self) -> bool:
        """Tell whether a start or a recovery has visibly gone on since the last time that this was asked."""
        before, self._progress = self._progress, self._look()
        return self._progress not in (before, ())

    def _look(self) -> Tuple[object, ...]:
        """Return what changes while recovery goes on; nothing if it has not begun, or if it is over.

        The server reports every 15 s or so; in between, only what it reads and writes shows that it is at work.
        """
        lines = self._lines()
        told = self._launcher.progress()
        recovery = sum(1 for line in lines if RECOVERING.search(line))
        if any(READY in line for line in lines) or not (told or recovery):
            return ()
        server = find(self._instance)
        return told, recovery, bytes_moved(server.pid) if server and recovery else 0

    def words(self) -> str:
        """Return the most telling lines of what was said, shortened; nothing if only notes were."""
        lines = [line for line in self._lines() if "[Note]" not in line]
        found = ([line for line in lines if pattern.search(line)] for pattern in TELLING)
        telling = next((some for some in found if some), lines)
        return " | ".join(dict.fromkeys(telling[-4:]))[-600:].rstrip(" .;")

    def _lines(self) -> List[str]:
        text = self._launcher_text
        if text is None:
            text = self._launcher.messages(self._since)
        return [line.strip() for line in (self._read() + "\n" + text).splitlines() if line.strip()]

    def _read(self) -> str:
        if not self._file:
            return ""
        try:
            with open(self._file, "rb") as stream:
                stream.seek(self._begin if self._begin <= self._size() else 0)
                length = max(self._end - self._begin, 0) if self._end is not None else -1
                return stream.read(length)[-65536:].decode("utf-8", "replace")
        except OSError:
            return ""
