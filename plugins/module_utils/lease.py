# SPDX-License-Identifier: GPL-3.0-or-later
"""The host-side lock of a run: one run at a time, and a dead run's lock ends by itself.

A lease counts in seconds since the boot, so that a stepped clock neither ends nor prolongs it; another
boot ends it. Each step of a run takes it again, which renews it.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import time
from typing import Any, Dict, Iterator, NamedTuple, Optional

from .durable import discard, make_directory, read_json, sync_directory, write_json

STATE_ROOT = "/var/lib/fleet-mysqltune"
TTL = 900.0


class JournalError(Exception):
    """Something that stops a run before it changed anything: one sentence."""


def in_words(error: Exception) -> str:
    """Return one sentence about what stopped a run: our own, or about the file that the system refused."""
    if not isinstance(error, OSError):
        return str(error)
    where = error.filename or "the state directory"
    return f"{where}: {error.strerror or error}. Make room or access there, then run again."


class LeaseHeld(JournalError):
    """Another run holds the host."""


class Lease(NamedTuple):
    """``renewed`` and ``ttl`` in seconds, ``renewed`` counted since the boot ``boot``."""

    run_id: str
    boot: str
    renewed: float
    ttl: float
    holder: str

    @property
    def remaining(self) -> float:
        """Seconds that the lease is still good for; negative when it has expired."""
        if self.boot != boot_id():
            return -1.0
        return self.renewed + self.ttl - since_boot()

    @property
    def live(self) -> bool:
        return self.remaining > 0

    def as_dict(self) -> Dict[str, Any]:
        """Return the lease as ``mysqld_info`` shows it; ``expires`` is an epoch by the present clock."""
        return {
            "run_id": self.run_id,
            "expires": time.time() + self.remaining,
            "live": self.live,
            "holder": self.holder,
        }


def since_boot() -> float:
    """Return the seconds since the boot, suspended time included; no clock setting changes them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_id(proc: str = "/proc") -> str:
    """Return a name of this boot: the kernel's and, for a container that restarts, the start of its init."""
    return f"{_kernel_boot(proc)}:{process_start(1, proc)}"


def _kernel_boot(proc: str) -> str:
    try:
        with open(os.path.join(proc, "sys/kernel/random/boot_id"), encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return "unknown"


def process_start(pid: int, proc: str = "/proc") -> Optional[int]:
    """Return when a process started, in clock ticks since the boot; None if there is no such process."""
    try:
        with open(os.path.join(proc, str(pid), "stat"), "rb") as stream:
            return int(stream.read().rsplit(b")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def take(run_id: str, root: str = STATE_ROOT, ttl: float = TTL, holder: Optional[str] = None) -> Lease:
    """Take or renew the lease for ``run_id``; ``LeaseHeld`` while another run's is live."""
    with _locked(root):
        held = current(root)
        if held and held.live and held.run_id != run_id:
            raise LeaseHeld(_held_by(held))
        own = held is not None and held.run_id == run_id
        lease = Lease(
            run_id, boot_id(), since_boot(), ttl, holder or (held.holder if held and own else _holder())
        )
        try:
            write_json(_path(root), lease._asdict())
        except OSError as error:
            raise OSError(error.errno, error.strerror, _path(root)) from error
        return lease


def check(run_id: str, root: str = STATE_ROOT) -> None:
    """Raise ``LeaseHeld`` if another run's lease is live; takes nothing (for check mode)."""
    held = current(root)
    if held and held.live and held.run_id != run_id:
        raise LeaseHeld(_held_by(held))


def release(run_id: str, root: str = STATE_ROOT) -> bool:
    """Give the lease of ``run_id`` back; True if it was there."""
    if not os.path.isdir(root):
        return False
    with _locked(root):
        held = current(root)
        if held is None or held.run_id != run_id:
            return False
        discard(_path(root))
        sync_directory(root)
        return True


def current(root: str = STATE_ROOT) -> Optional[Lease]:
    """Return the lease that is on the disk, live or expired."""
    found = read_json(_path(root))
    if not isinstance(found, dict):
        return None
    try:
        return Lease(
            str(found["run_id"]),
            str(found["boot"]),
            float(found["renewed"]),
            float(found["ttl"]),
            str(found["holder"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def ensure_root(root: str) -> None:
    """Create the state directory for root alone, or refuse one that others could read or own."""
    try:
        make_directory(root, 0o700)
        status = os.lstat(root)
    except OSError as error:
        raise JournalError(f"cannot create {root}: {error.strerror}. Run as root (become: true).") from error
    if status.st_uid != os.geteuid() or status.st_mode & 0o077 or not os.path.isdir(root):
        raise JournalError(
            f"{root} must be a directory that only its owner (uid {os.geteuid()}) can enter. "
            f"Find out who changed it, then: chown {os.geteuid()} {root} && chmod 0700 {root}."
        )


@contextlib.contextmanager
def _locked(root: str) -> Iterator[None]:
    """Hold the lock of the lease file while it is read and changed; the kernel drops it if we die."""
    ensure_root(root)
    descriptor = os.open(os.path.join(root, "lease.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _path(root: str) -> str:
    return os.path.join(root, "lease.json")


def _held_by(lease: Lease) -> str:
    until = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(time.time() + lease.remaining))
    return (
        f"run {lease.run_id} ({lease.holder}) holds this host until {until}. Wait for its end; if it is dead, "
        "the next run after that time puts back what it left, and undoing that run "
        f"(rollback.yml -e tuning_run_id={lease.run_id}) does it at once."
    )


def _holder() -> str:
    """Name who runs this: the user, and where the connection comes from."""
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    origin = os.environ.get("SSH_CONNECTION", "").split(" ")[0]
    return f"{user} from {origin}" if origin else user
