# SPDX-License-Identifier: GPL-3.0-or-later
"""Libraries that must never get near a server: refused before any restart, with file, value and fix."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live import BYTES, ROOT, Host, Lab, Survivors

sys.path.append(str(ROOT / "tests/unit/module_utils"))
from elf_builder import Builder

AARCH64 = 183
PATH = "/usr/local/lib/libfault.so"
PLAIN = "void *malloc(unsigned long n) { return 0; }\n"
IN_CONSTRUCTOR = (
    "#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void strike(void) { %s }\n"
)
DROP_INS = "/etc/systemd/system/mariadb.service.d"
INSTALL = "apt-get -qq install -y libcap2-bin libgoogle-perftools4 </dev/null >/dev/null 2>&1"
REAL = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"


class Untouched:
    """A host that has to be the same afterwards: its process, its bytes, its rows."""

    def __init__(self, lab: Lab, host: Host) -> None:
        self.lab, self.host = lab, host
        self.rows = Survivors(host)
        self.before = host.pid(), host.tree(BYTES)

    def refuses(self, library: str, *words: str) -> None:
        done = self.lab.tune(self.host.name, allocator_name=library)
        assert done.rc != 0 and done.counted(self.host.name, "failed") == 1, done.out
        assert not [word for word in words if word not in done.said], done.out
        assert "Traceback" not in done.out
        assert (self.host.pid(), self.host.tree(BYTES)) == self.before
        assert self.rows.lost() == ""


@pytest.fixture
def untouched(lab: Lab, deb12: Host) -> Iterator[Untouched]:
    deb12.sh(f"rm -rf {PATH}")
    yield Untouched(lab, deb12)
    deb12.sh(f"rm -rf {PATH} /opt/fault")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    return build(tmp_path, PLAIN)


def build(folder: Path, code: str, *flags: str) -> Path:
    """Compile a library."""
    library = folder / "libfault.so"
    command = ["cc", *flags, "-shared", "-fPIC", "-x", "c", "-o", str(library), "-"]
    subprocess.run(command, input=code, text=True, check=True)
    return library


def made(folder: Path, **parts: Any) -> Path:
    """Make an ELF file of a class, machine or alignment that the compiler here does not make."""
    library = folder / "libfault.so"
    library.write_bytes(Builder(soname="libfault.so", exports=["malloc", "free"], **parts).build())
    return library


@pytest.mark.quick
@pytest.mark.fault("library missing, or something else in its place")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        ("true", f"{PATH} does not exist"),
        (f"mkdir {PATH}", f"{PATH} is a directory"),
        (f"mkfifo {PATH}", f"{PATH} is no regular file"),
        (f"ln -s {PATH} {PATH}", f"{PATH} is a link that leads nowhere"),
        (f"echo hello >{PATH}", "Name a shared library"),
        (f"head -c 100 {REAL} >{PATH} 2>/dev/null || head -c 100 /bin/sh >{PATH}", "Name a shared library"),
        (f": >{PATH}", "Name a shared library"),
    ],
    ids=["missing", "directory", "fifo", "loop", "text", "truncated", "empty"],
)
def test_what_is_no_library_is_called_what_it_is(untouched: Untouched, make: str, words: str) -> None:
    """Refused by the plan; the message says what is there instead of a library."""
    untouched.host.sh(make)
    untouched.refuses(PATH, PATH, words)


@pytest.mark.quick
@pytest.mark.fault("library of the wrong class")
def test_a_32_bit_library_is_refused(untouched: Untouched, tmp_path: Path) -> None:
    """Refused by the plan; the message names both classes."""
    untouched.host.copy(build(tmp_path, PLAIN, "-m32", "-nostdlib"), PATH)
    untouched.refuses(PATH, f"{PATH} is a 32-bit library", "64-bit program", "Install the 64-bit library")


@pytest.mark.quick
@pytest.mark.fault("library for the wrong machine")
def test_a_library_for_another_machine_is_refused(untouched: Untouched, tmp_path: Path) -> None:
    """Refused by the plan; the message names both machines."""
    untouched.host.copy(made(tmp_path, machine=AARCH64), PATH)
    untouched.refuses(PATH, f"{PATH} is built for aarch64", "for x86_64")


@pytest.mark.quick
@pytest.mark.fault("library for another page size (simulated: an ELF file made by hand)")
def test_a_library_for_smaller_pages_is_refused(untouched: Untouched, tmp_path: Path) -> None:
    """Refused by the plan; the message names the alignment and the page size."""
    untouched.host.copy(made(tmp_path, align=1024), PATH)
    untouched.refuses(PATH, f"{PATH} is aligned to 1024 bytes, but this host has pages of 4096 bytes")


@pytest.mark.quick
@pytest.mark.fault("library in a path that others can write to")
@pytest.mark.parametrize(
    ("make", "named", "words"),
    [
        (f"chmod 0646 {PATH}", PATH, f"could be replaced by others than root: {PATH} has mode 0646"),
        (f"chown mysql {PATH}", PATH, f"could be replaced by others than root: {PATH} belongs to uid"),
        (
            f"mkdir -m 0777 /opt/fault && mv {PATH} /opt/fault/lib.so",
            "/opt/fault/lib.so",
            "could be replaced by others than root: /opt/fault has mode 0777",
        ),
        (f"mv {PATH} /tmp/libfault.so", "/tmp/libfault.so", "/tmp has mode 1777"),
        (
            f"mkdir -m 0777 /opt/fault && mv {PATH} /opt/fault/lib.so && ln -s /opt/fault/lib.so {PATH}",
            PATH,
            "could be replaced by others than root: /opt/fault has mode 0777",
        ),
    ],
    ids=["file", "owner", "directory", "sticky", "link"],
)
def test_a_library_that_others_could_replace_is_refused(
    untouched: Untouched, built: Path, make: str, named: str, words: str
) -> None:
    """Refused by the plan; the message names the part of the path, its mode or owner, and the command that corrects it."""
    untouched.host.copy(built, PATH)
    untouched.host.sh(make)
    untouched.refuses(named, words)


@pytest.mark.quick
@pytest.mark.fault("library that the server's user cannot read")
@pytest.mark.parametrize(
    ("make", "path"),
    [
        (f"install -m 0600 {REAL} {PATH}", PATH),
        (f"mkdir -m 0700 /opt/fault && install -m 0644 {REAL} /opt/fault/lib.so", "/opt/fault/lib.so"),
    ],
    ids=["file", "directory"],
)
def test_a_library_that_the_server_cannot_read_is_refused(untouched: Untouched, make: str, path: str) -> None:
    """Refused by the flight test, which runs the daemon as its own user in a clone of its unit."""
    untouched.host.sh(INSTALL)
    untouched.host.sh(make)
    untouched.refuses(path, f"{path} does not work in it (unreadable)", "see the modes on its path")


@pytest.mark.quick
@pytest.mark.fault("library whose constructor crashes or hangs every program")
@pytest.mark.parametrize(
    ("body", "words"), [("abort();", "is killed by SIGABRT"), ("for (;;) pause();", "hangs at its start")]
)
def test_a_constructor_that_never_returns_is_found_in_the_flight_test(
    untouched: Untouched, tmp_path: Path, body: str, words: str
) -> None:
    """Refused by the flight test within its time-out, and no process is left of it."""
    untouched.host.copy(build(tmp_path, IN_CONSTRUCTOR % body), PATH)
    untouched.refuses(PATH, words, f"with {PATH}, and starts without it")
    assert untouched.host.sh(f"grep -l {PATH} /proc/[0-9]*/maps 2>/dev/null", check=False) == ""


@pytest.mark.quick
@pytest.mark.fault("file capability on the daemon")
def test_a_daemon_with_a_file_capability_is_refused(lab: Lab, deb12: Host) -> None:
    """ld.so drops preloads of such a program: the flight test says secure_exec, and the server is left alone."""
    deb12.sh(INSTALL)
    untouched = Untouched(lab, deb12)
    deb12.sh("setcap cap_sys_nice+ep $(readlink -f /usr/sbin/mariadbd)")
    try:
        untouched.refuses("tcmalloc", "(secure_exec)", "setcap -r")
    finally:
        deb12.sh("setcap -r $(readlink -f /usr/sbin/mariadbd)")


@pytest.mark.quick
@pytest.mark.fault("confinement that denies the library (by systemd; no AppArmor or SELinux in this kernel)")
def test_a_unit_that_hides_the_library_is_refused(lab: Lab, deb12: Host) -> None:
    """Refused by the flight test, which runs in a clone of the unit with its sandbox."""
    deb12.sh(f"{INSTALL}; mkdir -p /opt/fault {DROP_INS}; install -m 0644 {REAL} /opt/fault/libtcmalloc.so.4")
    deb12.put(f"{DROP_INS}/hide.conf", "[Service]\nInaccessiblePaths=/opt/fault", "0644")
    deb12.sh("systemctl daemon-reload; systemctl restart mariadb")
    untouched = Untouched(lab, deb12)
    try:
        untouched.refuses(
            "/opt/fault/libtcmalloc.so.4", "does not work in it (unreadable)", "the unit's sandbox"
        )
    finally:
        deb12.sh(
            f"rm -rf {DROP_INS}/hide.conf /opt/fault; systemctl daemon-reload; systemctl restart mariadb"
        )
