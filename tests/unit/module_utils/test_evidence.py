from __future__ import annotations

import os

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.evidence import (
    LEVELS,
    allocator_name,
    collect,
    environment,
    is_libc,
    judge,
    soname_of,
)
from programs import ALLOCATOR, programs

__all__ = ["programs"]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to read another process's memory")

EXE = "/usr/sbin/mysqld"
LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"
LINK = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"
REAL = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.10"
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
HOTBACKUP = "/usr/lib64/libHotBackup.so"


def facts(malloc=LIBC, free="same", **changes):
    return {
        "exe": EXE,
        "secure_exec": False,
        "bits": 64,
        "machine": "x86_64",
        "environ": "",
        "mapped": [],
        "deleted": [],
        "linked": None,
        "bound": {"malloc": malloc, "free": malloc if free == "same" else free},
        "resolved": {LINK: REAL} if REAL in (changes.get("mapped") or []) else {},
        "problems": {},
        **changes,
    }


TUNED = {"malloc": REAL, "environ": LINK, "mapped": [REAL]}
BOTH = [JEMALLOC, REAL]

TABLE = [
    ("untouched", facts(), None, ("effective", None)),
    ("untouched, asked for", facts(), LINK, ("intended", None)),
    ("only the files say so", facts(configured=[LINK]), LINK, ("intended", "stale_process")),
    ("a later file wins", facts(overridden_by=["/etc/default/x"]), LINK, ("intended", "overridden")),
    ("all right", facts(**TUNED), LINK, ("effective", None)),
    ("by the real path", facts(**{**TUNED, "environ": REAL, "resolved": {}}), REAL, ("effective", None)),
    (
        "beside another preload",
        facts(**{**TUNED, "environ": f"{HOTBACKUP}:{LINK}"}),
        LINK,
        ("effective", None),
    ),
    ("another one is asked for", facts(**TUNED), JEMALLOC, ("intended", None)),
    ("set-user-id", facts(environ=LINK, secure_exec=True), LINK, ("delivered", "secure_exec")),
    ("32 bits", facts(environ=LINK, problems={LINK: "elf_class"}), LINK, ("delivered", "elf_class")),
    (
        "other machine",
        facts(environ=LINK, problems={LINK: "elf_machine"}),
        LINK,
        ("delivered", "elf_machine"),
    ),
    ("no file", facts(environ=LINK, problems={LINK: "not_found"}), LINK, ("delivered", "not_found")),
    ("file came later", facts(environ=LINK), LINK, ("delivered", "stale_process")),
    (
        "unsafe is no reason for ld.so",
        facts(environ=LINK, problems={LINK: "unsafe_path"}),
        LINK,
        ("delivered", "stale_process"),
    ),
    ("apparmor", facts(environ=LINK, confinement="mysqld (enforce)"), LINK, ("delivered", "apparmor")),
    (
        "selinux",
        facts(environ=LINK, confinement="system_u:system_r:mysqld_t:s0"),
        LINK,
        ("delivered", "selinux"),
    ),
    ("file was replaced", facts(**TUNED, deleted=[REAL]), LINK, ("delivered", "deleted")),
    (
        "own malloc",
        facts(**{**TUNED, "malloc": EXE}, linked="its own malloc"),
        LINK,
        ("mapped", "linked_allocator"),
    ),
    ("slots not filled", facts(**{**TUNED, "malloc": None}), LINK, ("mapped", "not_bound")),
    (
        "the other one won",
        facts(malloc=JEMALLOC, environ=f"{JEMALLOC} {LINK}", mapped=BOTH),
        LINK,
        ("mapped", "second_allocator"),
    ),
    (
        "won, but the other one is in too",
        facts(malloc=REAL, environ=f"{LINK} {JEMALLOC}", mapped=BOTH),
        LINK,
        ("mapped", "second_allocator"),
    ),
    (
        "a plugin brought another one",
        facts(malloc=REAL, environ=LINK, mapped=BOTH),
        LINK,
        ("effective", None),
    ),
    ("free is somebody else's", facts(**TUNED, free=LIBC), LINK, ("mapped", "second_allocator")),
    (
        "preloaded over a linked one",
        facts(malloc=JEMALLOC, environ=JEMALLOC, mapped=BOTH, linked="libtcmalloc.so.4"),
        JEMALLOC,
        ("mapped", "second_allocator"),
    ),
    (
        "linked, nothing asked",
        facts(malloc=REAL, mapped=[REAL], linked="libtcmalloc.so.4"),
        None,
        ("effective", "linked_allocator"),
    ),
    (
        "own malloc, nothing asked",
        facts(malloc=EXE, linked="its own malloc"),
        None,
        ("effective", "linked_allocator"),
    ),
    (
        "linked, the same asked",
        facts(malloc=REAL, mapped=[REAL], linked="libtcmalloc.so.4"),
        LINK,
        ("effective", None),
    ),
    ("preload taken out of the files", facts(**TUNED, configured=[]), None, ("intended", "stale_process")),
    ("preload still in the files", facts(**TUNED, configured=[LINK]), None, ("intended", "second_allocator")),
    ("unreadable", facts(malloc=None), None, ("intended", "not_bound")),
]


@pytest.mark.parametrize(
    ("seen", "library", "expected"), [pytest.param(*row[1:], id=row[0]) for row in TABLE]
)
def test_the_level_says_how_far_a_library_got_and_the_reason_why_no_further(seen, library, expected):
    assert judge(seen, library) == expected


def test_no_level_but_the_four_is_ever_given():
    assert {row[3][0] for row in TABLE} == set(LEVELS)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (LIBC, True),
        ("/lib/x86_64-linux-gnu/libc-2.31.so", True),
        ("/lib/ld-musl-x86_64.so.1", True),
        ("/usr/lib/libc-client.so.2", False),
        (REAL, False),
        (None, False),
    ],
)
def test_the_c_library_is_known_by_its_name(path, expected):
    assert is_libc(path) is expected


@pytest.mark.parametrize(
    ("malloc", "expected"),
    [
        (LIBC, "system"),
        (REAL, "tcmalloc"),
        (JEMALLOC, "jemalloc"),
        (EXE, "linked"),
        ("/opt/libz.so", "/opt/libz.so"),
    ],
)
def test_the_allocator_is_named_after_the_owner_of_malloc(malloc, expected):
    assert allocator_name(facts(malloc)) == expected


def test_an_unknown_owner_has_no_name():
    assert allocator_name(facts(None)) is None


@as_root
def test_a_preloaded_allocator_is_effective_in_a_real_process(programs):
    real = programs.library("libjemalloc.so.2.0")
    link = str(programs.directory / "libjemalloc.so.2")
    os.symlink(real, link)
    seen = collect(programs.start(programs.program("server"), preload=link))
    assert seen["mapped"] == [real]
    assert seen["resolved"][link] == real
    assert judge(seen, link) == ("effective", None)
    assert allocator_name(seen) == "jemalloc"


@as_root
def test_missing_and_foreign_preloads_are_told_apart_in_a_real_process(programs):
    script = programs.directory / "script.so"
    script.write_text("#!/bin/sh\n")
    seen = collect(programs.start(programs.program("server"), preload=f"/nope/libx.so {script}"))
    assert seen["problems"] == {"/nope/libx.so": "not_found", str(script): "not_elf"}
    assert judge(seen, "/nope/libx.so") == ("delivered", "not_found")
    assert judge(seen, None) == ("effective", None)


@as_root
def test_a_replaced_library_is_deleted_in_a_real_process(programs):
    library = programs.library("libjemalloc.so.2")
    pid = programs.start(programs.program("server"), preload=library)
    os.remove(library)
    programs.library("libjemalloc.so.2", ALLOCATOR + "int changed;")
    assert judge(collect(pid), library) == ("delivered", "deleted")


@as_root
def test_an_allocator_that_the_program_is_linked_with_is_reported(programs):
    programs.library("libjemalloc.so.2")
    link = [
        "-Wl,--no-as-needed",
        "-l:libjemalloc.so.2",
        f"-L{programs.directory}",
        f"-Wl,-rpath,{programs.directory}",
    ]
    seen = collect(programs.start(programs.program("server", *link)))
    assert seen["linked"] == "libjemalloc.so.2"
    assert judge(seen, None) == ("effective", "linked_allocator")


@as_root
def test_a_programs_own_malloc_is_reported(programs):
    library = programs.library("libjemalloc.so.2")
    own = programs.program("server", "-rdynamic", extra=ALLOCATOR)
    seen = collect(programs.start(own, preload=library))
    assert seen["linked"] == "its own malloc"
    assert judge(seen, library) == ("mapped", "linked_allocator")


def test_a_process_that_is_gone_is_an_error_of_the_system():
    with pytest.raises(OSError, match="No such file"):
        collect(2**22 + 1)


def test_the_environment_is_read_as_the_process_was_started(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7/environ").write_bytes(b"LD_PRELOAD=/a b=c\0X=\0broken\0")
    assert environment(7, str(tmp_path)) == {"LD_PRELOAD": "/a b=c", "X": ""}


def test_a_file_without_soname_has_none(tmp_path):
    (tmp_path / "text").write_text("text")
    assert soname_of(str(tmp_path / "text")) is None
    assert soname_of(str(tmp_path / "absent")) is None
