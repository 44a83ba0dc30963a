# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a program whose output nobody reads, so that it stands still, and make sure that it ends.

``DirectProcess`` runs it as a user; ``UnitProcess`` runs it in a transient systemd unit with the properties
of another unit. Both end with the program that started them: by the parent's death (a direct child) or by a
guard that sees its pipe closed and by the manager's ``RuntimeMaxSec`` (a unit).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pwd
import re
import resource
import secrets
import select
import signal
import subprocess
import time
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from .command import Completed

RunCommand = Callable[..., Completed]

_F_SETPIPE_SZ = 1031
_PR_SET_PDEATHSIG = 1
_PAGE = 4096
_KEPT = 20000
_TICK = 0.02
_STARTED = "Running as unit"
_MANAGER = 15.0
_GUARD = 'read -r line; exec systemctl kill --signal=KILL "$0"'


class Ending(NamedTuple):
    """How the program ended: its exit code or the name of the signal; both None while it runs."""

    code: Optional[int]
    signal: Optional[str]


class DirectProcess:
    """A child of ours, as another user if asked. Its output pipe is one page, so that it fills at once."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], user: Optional[str], seconds: float
    ):
        self._reader, writer = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(writer, _F_SETPIPE_SZ, _PAGE)
        self._errors = b""
        try:
            self._child = subprocess.Popen(
                self._command(argv, environment),
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=subprocess.PIPE,
                env=self._environment(environment),
                cwd="/",
                preexec_fn=preparation(user, seconds),  # noqa: PLW1509 - this program has one thread
            )
        except (OSError, subprocess.SubprocessError) as error:
            os.close(self._reader)
            raise OSError(f"{argv[0]} cannot be started as {user or 'this user'}: {error}") from error
        finally:
            os.close(writer)
        assert self._child.stderr is not None
        self._stderr = self._child.stderr
        os.set_blocking(self._stderr.fileno(), False)

    def _command(self, argv: Sequence[str], environment: Mapping[str, str]) -> List[str]:  # noqa: ARG002
        return list(argv)

    def _environment(self, environment: Mapping[str, str]) -> Dict[str, str]:
        return {"PATH": os.defpath, "LC_ALL": "C", **environment}

    @property
    def pid(self) -> Optional[int]:
        return self._child.pid

    @property
    def errors(self) -> str:
        """What it wrote to stderr so far."""
        with contextlib.suppress(OSError, ValueError):
            while len(self._errors) < _KEPT:
                part = self._stderr.read(_PAGE)
                if not part:
                    break
                self._errors += part
        return self._errors.decode(errors="replace")

    def stands(self, seconds: float) -> bool:
        """Wait until there is output, which stays unread; False if it ended before or the time is over."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if any(event & select.POLLIN for _, event in poll.poll(_TICK * 1000)):
                return self._child.poll() is None
            if self._child.poll() is not None:
                return False
            self.errors  # noqa: B018 - so that a talkative program does not stop at a full pipe
        return False

    def ending(self) -> Ending:
        code = self._child.poll()
        if code is not None and code < 0:
            return Ending(None, _signal_name(-code))
        return Ending(code, None)

    def kill(self) -> None:
        """End it and wait for its end. Call it always, and more than once if you like."""
        self._end()
        with contextlib.suppress(OSError):
            os.close(self._reader)
        self._reader = -1
        self.errors  # noqa: B018
        self._stderr.close()

    def _end(self) -> None:
        self._child.kill()
        self._child.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def preparation(user: Optional[str], seconds: float) -> Callable[[], None]:
    """Return what the child does before the program: become the user, die with us, use no more CPU than this."""
    account = _account(user) if user and os.geteuid() == 0 else None
    groups = os.getgrouplist(account.pw_name, account.pw_gid) if account else []
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def prepare() -> None:
        if account:
            os.setgroups(groups)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        _limit_cpu(seconds)

    return prepare


def _account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise OSError(f"there is no user {user!r} on this host") from None


def _limit_cpu(seconds: float) -> None:
    limit = int(seconds) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class UnitProcess(DirectProcess):
    """The program in a transient unit; systemd-run is the child and hands its own stdout and stderr on."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        properties: Mapping[str, str],
        seconds: float,
        run: RunCommand,
    ) -> None:
        self._name = f"fleet-mysqltune-probe-{secrets.token_hex(6)}.service"
        self._properties, self._seconds, self._run = properties, seconds, run
        self._main_pid: Optional[int] = None
        super().__init__(argv, environment, None, seconds + 10)
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _command(self, argv: Sequence[str], environment: Mapping[str, str]) -> List[str]:
        limits = {
            "RuntimeMaxSec": f"{self._seconds + 5:g}",
            "TimeoutStopSec": "2",
            "KillSignal": "SIGKILL",
            "SendSIGKILL": "yes",
            "LimitCORE": "0",
        }
        options = [f"--property={name}={value}" for name, value in {**self._properties, **limits}.items()]
        variables = [
            f"--setenv={name}={value}" for name, value in sorted({"LC_ALL": "C", **environment}.items())
        ]
        head = ["systemd-run", "--wait", "--pipe", "--collect", "--no-ask-password", f"--unit={self._name}"]
        return [*head, *options, *variables, "--", *argv]

    def _environment(self, environment: Mapping[str, str]) -> Dict[str, str]:  # noqa: ARG002
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}

    def refused(self) -> Optional[str]:
        """Wait for the manager; return why it did not start the unit, None if it did."""
        deadline = time.monotonic() + _MANAGER
        while _STARTED not in self.errors:
            ended = self._child.poll() is not None
            if ended and _STARTED not in self.errors:
                return self.errors.strip()[-300:] or "systemd-run failed"
            if time.monotonic() > deadline:
                return f"systemd-run did not start it within {_MANAGER:g} s"
            time.sleep(_TICK)
        return None

    @property
    def pid(self) -> Optional[int]:
        if self._main_pid is None:
            shown = self._run(["systemctl", "show", "-p", "MainPID", self._name], timeout=10.0).out
            number = shown.strip().partition("=")[2]
            self._main_pid = int(number) if number.isdigit() and int(number) else None
        return self._main_pid

    def ending(self) -> Ending:
        found = re.search(r"terminated with: code=(\w+)/status=(\w+)", self.errors)
        if not found:
            return Ending(self._child.poll(), None)
        if found.group(1) == "exited":
            return Ending(int(found.group(2)) if found.group(2).isdigit() else 1, None)
        return Ending(None, f"SIG{found.group(2)}")

    def _end(self) -> None:
        if self._child.poll() is None:
            self._run(["systemctl", "kill", "--signal=KILL", self._name], timeout=10.0)
            self._run(["systemctl", "stop", self._name], timeout=10.0)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(5)
        super()._end()
        self._guard.kill()
        self._guard.communicate()
