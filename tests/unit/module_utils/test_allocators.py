from __future__ import annotations

import os
import re

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import allocators
from ansible_collections.fleet.mysqltune.plugins.module_utils.allocators import (
    ALLOCATORS,
    check_library,
    classify,
    components,
    unsafe_path,
)
from elf_builder import Builder

UID = os.getuid()


@pytest.fixture
def library(tmp_path):
    os.chmod(tmp_path, 0o755)
    path = tmp_path / "libjemalloc.so.2"
    path.write_bytes(Builder(soname="libjemalloc.so.2").build())
    path.chmod(0o644)
    return path


def problem(path, top, **wanted):
    return check_library(str(path), root_uid=UID, root=str(top), **wanted)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("libtcmalloc.so.4", "tcmalloc"),
        ("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4.5.10", "tcmalloc_minimal"),
        ("libjemalloc.so", "jemalloc"),
        ("libjemalloc.so.1", "jemalloc"),
        ("libmimalloc.so.2.0", "mimalloc"),
        ("/usr/lib/64/libmtmalloc.so.1", "mtmalloc"),
        ("libumem.so.1", "umem"),
        ("libhoard.so", "hoard"),
        ("libtcmalloc_debug.so.4", None),
        ("libtcmalloc_minimal_debug.so.4", None),
        ("libtcmalloc_and_profiler.so.4", None),
        ("libc.so.6", None),
        ("notlibjemalloc.so.2", None),
        ("libjemalloc.a", None),
    ],
)
def test_files_are_classified_by_name_and_debug_builds_never_count(name, expected):
    assert classify(name) == expected


def test_system_and_linked_are_allocators_too():
    assert {"system", "linked", "tcmalloc", "jemalloc"} <= set(ALLOCATORS)


def test_a_sound_library_has_no_problem(library, tmp_path):
    assert problem(library, tmp_path, bits=64, machine="x86_64") is None


@pytest.mark.parametrize(
    ("wanted", "reason", "words"),
    [
        ({"bits": 32}, "elf_class", "is a 64-bit library, but the server is a 32-bit program"),
        ({"machine": "aarch64"}, "elf_machine", "is built for x86_64, but the server for aarch64"),
    ],
)
def test_a_library_for_another_program_is_refused(library, tmp_path, wanted, reason, words):
    found = problem(library, tmp_path, **wanted)
    assert found[0] == reason
    assert words in found[1]
    assert str(library) in found[1]


def test_a_missing_file_a_directory_and_a_text_are_refused(tmp_path):
    (tmp_path / "text.so").write_text("text")
    assert problem(tmp_path / "absent.so", tmp_path)[0] == "not_found"
    assert problem(tmp_path, tmp_path)[0] == "not_found"
    assert problem(tmp_path / "text.so", tmp_path)[0] == "not_elf"


def test_a_build_for_smaller_pages_is_refused(library, tmp_path, monkeypatch):
    monkeypatch.setattr(allocators.mmap, "PAGESIZE", 1 << 20)
    assert problem(library, tmp_path)[0] == "page_size"


def _world_writable_file(library):
    library.chmod(0o666)


def _group_writable_file(library):
    library.chmod(0o664)


def _sticky_directory(library):
    library.parent.chmod(0o1777)


@pytest.mark.parametrize("spoil", [_world_writable_file, _group_writable_file, _sticky_directory])
def test_what_others_could_replace_is_refused(library, tmp_path, spoil):
    spoil(library)
    found = problem(library, tmp_path)
    assert found[0] == "unsafe_path"
    assert re.search(r"chmod go-w|move the library", found[1])


def test_another_owner_is_refused(library, tmp_path):
    found = unsafe_path(str(library), root_uid=UID + 1, root=str(tmp_path))
    assert f"belongs to uid {UID}" in found[1]


def test_every_directory_of_a_chain_of_links_is_looked_at(library, tmp_path):
    loose = tmp_path / "loose"
    loose.mkdir()
    (loose / "middle.so").symlink_to(library)
    first = tmp_path / "first.so"
    first.symlink_to("loose/middle.so")
    loose.chmod(0o777)
    assert str(loose) in problem(first, tmp_path)[1]
    loose.chmod(0o755)
    assert problem(first, tmp_path) is None


def test_a_path_is_taken_apart_step_by_step(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to("real/../real")
    steps = list(components(str(tmp_path / "link" / "x.so")))
    assert steps[0] == "/"
    assert [str(tmp_path / name) for name in ("link", "real", "real", "real/x.so")] == steps[-4:]


def test_links_in_a_circle_end(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert len(list(components(str(tmp_path / "a")))) < 250
