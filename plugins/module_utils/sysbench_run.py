# SPDX-License-Identifier: GPL-3.0-or-later
"""One sysbench process under a supervisor that outlives the module, and nothing else running meanwhile.

The supervisor is a forked child in a session of its own. It sleeps in waitpid() with a timer, kills at the
outer time-out and writes ``ended.json`` in one step. sysbench gets the environment that the login got:
Python's own locale coercion is undone, nothing is added.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional

from .durable import read_json, write_json
from .servers import start_ticks

RAW, ENDED, RUNNING = "sysbench.txt", "ended.json", "running.json"
RENEW_EVERY = 200.0  # seconds; the lease lives longer
Renew = Callable[[], None]


class Job(NamedTuple):
    """``work`` is the instance's own directory, ``results`` that of this run; ``timeout`` in s."""

    argv: List[str]
    executable: str
    work: str
    results: str
    timeout: float

    @property
    def raw(self) -> str:
        return os.path.join(self.results, RAW)

    @property
    def ended(self) -> str:
        return os.path.join(self.results, ENDED)

    @property
    def running(self) -> str:
        return os.path.join(self.work, RUNNING)


class _TimeIsUp(Exception):
    pass


def login_environment(proc: str = "/proc") -> Dict[str, str]:
    """The environment this process was started with, as sysbench typed by hand would inherit it."""
    try:
        with open(os.path.join(proc, "self", "environ"), "rb") as stream:
            entries = [entry.partition(b"=") for entry in stream.read().split(b"\0") if b"=" in entry]
    except OSError:
        return dict(os.environ)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}


def start(job: Job, renew: Optional[Renew] = None, patience: float = 15.0) -> Optional[Dict[str, Any]]:
    """Start the supervisor; what it wrote about the running process, None if it could not write anything."""
    for directory in (job.work, job.results):
        os.makedirs(directory, mode=0o700, exist_ok=True)
    for path in (job.raw, job.ended, job.running):
        if os.path.lexists(path):
            os.unlink(path)
    if os.fork() == 0:
        _become_supervisor(job, renew)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and not os.path.exists(job.running) and not os.path.exists(job.ended):
        time.sleep(0.02)
    state: Optional[Dict[str, Any]] = read_json(job.running) or read_json(job.ended)
    return state


def _become_supervisor(job: Job, renew: Optional[Renew]) -> NoReturn:
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.closerange(3, 1024)
        supervise(job, renew)
    finally:
        os._exit(0)


def supervise(job: Job, renew: Optional[Renew] = None) -> None:
    """Run the job to its end and write how it ended, whatever happens."""
    ended: Dict[str, Any] = {"rc": 127, "started": time.time(), "killed_after": None, "error": None}
    try:
        with open(job.raw, "wb") as raw:
            os.fchmod(raw.fileno(), 0o600)
            process = subprocess.Popen(
                job.argv,
                executable=job.executable,
                cwd=job.work,
                env=login_environment(),
                stdin=subprocess.DEVNULL,
                stdout=raw,
                stderr=subprocess.STDOUT,
            )
        _announce(job, process.pid, float(ended["started"]))
        ended.update(_wait(process, job.timeout, renew))
    except OSError as error:
        ended["error"] = f"{job.executable}: {error.strerror}"
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended.update(client_cpu_s=round(usage.ru_utime + usage.ru_stime, 3), ended=time.time())
    ended.update(supervisor_cpu_s=round(own.ru_utime + own.ru_stime, 4))
    write_json(job.ended, ended)
    os.unlink(job.running)


def _announce(job: Job, pid: int, started: float) -> None:
    me = os.getpid()
    facts = {
        "pid": pid,
        "supervisor": me,
        "birth": start_ticks(me),
        "started": started,
        "timeout": job.timeout,
    }
    write_json(job.running, dict(facts, argv=job.argv, results=job.results))


def _wait(process: subprocess.Popen[bytes], timeout: float, renew: Optional[Renew]) -> Dict[str, Any]:
    deadline = time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            process.kill()
            return {"rc": process.wait(), "killed_after": timeout}
        try:
            code = sleep_until_end(process, min(left, RENEW_EVERY))
        except _TimeIsUp:  # the timer rang between the end of the wait and its removal
            code = process.poll()
        if code is not None:
            return {"rc": code}
        if renew:
            _renewed(renew)


def _renewed(renew: Renew) -> None:
    with contextlib.suppress(Exception):  # a lease that cannot be renewed must not end a measurement
        renew()


def sleep_until_end(process: subprocess.Popen[bytes], seconds: float) -> Optional[int]:
    """The exit code, or None after ``seconds``; one system call (``wait(timeout)`` polls 20 × per s)."""

    def ring(*_: Any) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
        return process.wait()
    except _TimeIsUp:
        return process.poll()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def running(work: str) -> Optional[Dict[str, Any]]:
    """The benchmark that runs for this instance now (``running.json`` of a live supervisor), else None."""
    state = read_json(os.path.join(work, RUNNING))
    alive = (
        state is not None
        and state.get("birth") is not None
        and start_ticks(int(state["supervisor"])) == state["birth"]
    )
    return state if alive else None


def stop(work: str, patience: float = 10.0) -> bool:
    """End a benchmark that an interrupted run left behind; False if there is none."""
    state = running(work)
    if state is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(state["pid"]), signal.SIGKILL)
    deadline = time.monotonic() + patience
    while running(work) and time.monotonic() < deadline:
        time.sleep(0.05)
    return True


def wait_for_end(job: Job) -> Dict[str, Any]:
    """Block until the supervisor has written how the job ended, or is gone without that."""
    deadline = time.monotonic() + job.timeout + 30
    while running(job.work) and not os.path.exists(job.ended) and time.monotonic() < deadline:
        time.sleep(0.5)
    return read_json(job.ended) or {
        "rc": 127,
        "error": "the supervisor of sysbench was ended",
        "killed_after": None,
    }
