"""Bindings of real processes."""

from __future__ import annotations

import os

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.binding import resolve
from ansible_collections.fleet.mysqltune.plugins.module_utils.evidence import is_libc
from ansible_collections.fleet.mysqltune.plugins.module_utils.procmaps import read
from programs import ALLOCATOR, USER, programs

__all__ = ["programs"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to read another process's memory")


def bound(pid):
    return resolve(pid, os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)"), read(pid)).bound


@pytest.mark.parametrize("flags", [["-Wl,-z,now"], ["-Wl,-z,lazy"], ["-no-pie"], ["-fno-plt"]], ids=" ".join)
def test_without_a_preload_malloc_is_the_c_librarys(programs, flags):
    found = bound(programs.start(programs.program("server", *flags)))
    assert is_libc(found["malloc"])
    assert is_libc(found["free"])


@pytest.mark.parametrize("flags", [["-Wl,-z,now"], ["-Wl,-z,lazy"], ["-no-pie"], ["-fno-plt"]], ids=" ".join)
def test_a_preload_takes_malloc_and_free(programs, flags):
    library = programs.library("libother.so.1")
    pid = programs.start(programs.program("server", *flags), preload=library)
    assert bound(pid) == {"malloc": library, "free": library}


def test_a_program_with_its_own_malloc_keeps_it(programs):
    library = programs.library("libother.so.1")
    own = programs.program("server", "-rdynamic", extra=ALLOCATOR)
    assert bound(programs.start(own, preload=library)) == {"malloc": own, "free": own}


def test_slots_that_are_not_filled_yet_are_answered_by_another_library(programs):
    library = programs.library("libother.so.1")
    programs.library("libuser.so", USER, "-Wl,-z,now")
    link = [f"-L{programs.directory}", "-Wl,--no-as-needed", "-luser", f"-Wl,-rpath,{programs.directory}"]
    server = programs.program("server", "-Wl,-z,lazy", *link, uses_malloc=False)
    assert bound(programs.start(server, preload=library)) == {"malloc": library, "free": library}


def test_a_program_that_was_replaced_on_the_disk_is_still_read(programs):
    server = programs.program("server")
    pid = programs.start(server)
    os.remove(server)
    programs.program("server", extra="int changed;")
    assert is_libc(bound(pid)["malloc"])


def test_a_program_that_does_not_import_malloc_is_not_bound(programs):
    source = '#include <unistd.h>\nint main(void) { write(1, "!", 1); for (;;) pause(); }\n'
    pid = programs.start(programs.compile("idle", source))
    assert bound(pid) == {"malloc": None, "free": None}
