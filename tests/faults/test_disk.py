# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that are full or read-only, before a run and in the middle of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from live import BYTES, PID, STATE, Done, Host, Lab, Survivors
from spoiled import LIBRARY, Spoiled

DROP_INS = "/etc/systemd/system/mariadb.service.d"


@contextmanager
def mounted(host: Host, path: str, options: str) -> Iterator[None]:
    """Mount something on a directory of the host while the block runs."""
    host.sh(f"mkdir -p {path} && mount {options} {path}")
    try:
        yield
    finally:
        host.sh(f"umount -l {path}")


def tmpfs(size: str) -> str:
    return f"-t tmpfs -o mode=0700,size={size} none"


def assert_untouched(host: Host, done: Done, before: str, pid: str, rows: Survivors) -> None:
    """The run failed, said so in the table, and left server, files and rows alone."""
    assert done.rc != 0, done.out
    assert f"{host.name}: failed: " in done.said, done.out
    assert (host.pid(), host.tree(BYTES)) == (pid, before)
    assert rows.lost() == ""


@pytest.mark.quick
@pytest.mark.fault("disk full: no room for the journal")
@pytest.mark.parametrize("size", ["4k", "32k", "128k"])
def test_without_room_for_the_journal_nothing_is_begun(lab: Lab, deb12: Host, size: str) -> None:
    """The run is refused before its first change; the message names directory, bytes left and bytes needed."""
    before, pid, rows = deb12.tree(BYTES), deb12.pid(), Survivors(deb12)
    with mounted(deb12, STATE, tmpfs(size)):
        done = lab.tune("deb12", allocator_name="tcmalloc")
    assert_untouched(deb12, done, before, pid, rows)
    assert STATE in done.said and "No space left on device" in done.said, done.out


@pytest.mark.quick
@pytest.mark.fault("disk full: no room for the drop-in")
def test_without_room_for_a_file_everything_staged_is_taken_back(lab: Lab, deb12: Host) -> None:
    """What was staged already is taken back; no restart; the message names the file."""
    before, pid, rows = deb12.tree(BYTES), deb12.pid(), Survivors(deb12)
    with mounted(deb12, DROP_INS, tmpfs("4k")):
        deb12.sh(
            f"dd if=/dev/zero of={DROP_INS}/filler bs=1k count=64 2>/dev/null; rm -f {DROP_INS}/none",
            check=False,
        )
        done = lab.tune("deb12", allocator_name="tcmalloc", tuning_run_id="full")
        assert deb12.sh(f"ls -A {DROP_INS}") == "filler"
    deb12.sh(f"rmdir {DROP_INS}")
    assert_untouched(deb12, done, before, pid, rows)
    assert f"cannot write {DROP_INS}/zz-fleet-mysqltune.conf" in done.said, done.out
    assert "full restored" in deb12.sh(f"{STATE}/undo --list | tr -s ' ' | cut -d' ' -f1,4")


@pytest.mark.quick
@pytest.mark.fault("read-only /etc")
@pytest.mark.parametrize("path", ["/etc", DROP_INS])
def test_a_read_only_directory_leaves_all_as_it_was(lab: Lab, deb12: Host, path: str) -> None:
    """Nothing is changed, and what could be staged elsewhere is taken back; no restart; the message names the file."""
    deb12.sh(f"mkdir -p {DROP_INS}")
    before, pid, rows = deb12.tree(BYTES), deb12.pid(), Survivors(deb12)
    with mounted(deb12, path, f"--bind {path}"):
        deb12.sh(f"mount -o remount,ro,bind {path}")
        done = lab.tune("deb12", allocator_name="tcmalloc", tuning_run_id="readonly")
        again = lab.play("verify.yml", "deb12", allocator_name="tcmalloc")
    assert_untouched(deb12, done, before, pid, rows)
    assert "cannot write /etc/" in done.said and "Read-only file system" in done.said, done.out
    assert "interrupted" not in again.said, again.out


FILL = f"""
old=$({PID}); echo watching
for i in $(seq 6000); do [ -e /proc/$old ] || break; sleep 0.01; done
%s
echo done
"""


@pytest.fixture
def crashing(lab: Lab, deb12: Host) -> Spoiled:
    return Spoiled(lab, deb12)


def when_the_server_stops(host: Host, script: str) -> Callable[[], None]:
    """Run a script on the host as soon as its server has ended; the function that is returned waits for its end."""
    watcher = host.start(FILL % script)
    assert watcher.stdout is not None and watcher.stdout.readline() == "watching\n"

    def finish() -> None:
        out, _ = watcher.communicate(timeout=60)
        assert out == "done\n", out

    return finish


@pytest.mark.quick
@pytest.mark.fault("disk full in the middle of the restart")
def test_a_state_directory_that_becomes_full_does_not_stop_the_restore(
    crashing: Spoiled, deb12: Host
) -> None:
    """The new library crashes the server while the journal's disk is full: all is put back all the same."""
    with mounted(deb12, STATE, tmpfs("1m")):
        finish = when_the_server_stops(deb12, f"dd if=/dev/zero of={STATE}/filler bs=4k 2>/dev/null")
        done = crashing.tune()
        finish()
        deb12.sh(f"rm {STATE}/filler")
        listed = deb12.sh(f"{STATE}/undo --list")
        crashing.assert_restored(done, "crash", LIBRARY, "Everything was put back")
    assert "restored" in listed, listed


@pytest.mark.fault("read-only drop-in directory in the middle of the restart")
def test_a_file_that_cannot_be_put_back_is_said_loudly_and_undone_later(
    lab: Lab, crashing: Spoiled, deb12: Host
) -> None:
    """The host says RESTORE FAILED with the file, and stops; its own undo brings the server back once it can write."""
    deb12.sh(f"mkdir -p {DROP_INS}")
    before = deb12.tree(BYTES)
    with mounted(deb12, DROP_INS, f"--bind {DROP_INS}"):
        finish = when_the_server_stops(deb12, f"mount -o remount,ro,bind {DROP_INS}")
        done = crashing.tune()
        finish()
        assert done.rc != 0 and "RESTORE FAILED" in done.said, done.out
        assert f"{DROP_INS}/zz-fleet-mysqltune.conf cannot be put back" in done.said, done.out
        verified = lab.play("verify.yml", "deb12", allocator_name="system")
        assert verified.rc != 0 and "restore failed" in verified.said, verified.out
        deb12.sh(f"mount -o remount,rw,bind {DROP_INS}")
        said = deb12.sh(f"{STATE}/undo")
    assert "mariadb" in said and "restored" in said
    assert deb12.tree(BYTES) == before
    assert crashing.rows.lost() == ""
