from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import libraries as module
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.libraries import libraries, owners
from elf_builder import Builder

DPKG = Path(__file__).parents[2] / "fixtures/dpkg/libgoogle-perftools4-debian-12.list"
TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.10"


def no_command(*_args, **_more):
    raise AssertionError("no command is needed")


@pytest.fixture
def root(tmp_path):
    """A root file system with a multiarch directory that has one allocator, its link, and other libraries."""
    os.chmod(tmp_path, 0o755)
    directory = tmp_path / "usr/lib/x86_64-linux-gnu"
    directory.mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    add(directory / "libjemalloc.so.2.0", "libjemalloc.so.2")
    (directory / "libjemalloc.so.2").symlink_to("libjemalloc.so.2.0")
    (directory / "libjemalloc.so").symlink_to("libjemalloc.so.2")
    add(directory / "libtcmalloc_debug.so.4", "libtcmalloc_debug.so.4")
    add(directory / "libz.so.1", "libz.so.1")
    return tmp_path


def add(path, soname, **changes):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Builder(soname=soname, **changes).build())
    path.chmod(0o644)
    return path


def found(root, *search):
    return libraries(list(map(str, search)), no_command, str(root), os.getuid())


def test_an_allocator_is_listed_once_by_the_link_of_its_soname(root):
    [library] = found(root)
    directory = root / "usr/lib/x86_64-linux-gnu"
    assert library["path"] == str(directory / "libjemalloc.so.2")
    assert library["real_path"] == str(directory / "libjemalloc.so.2.0")
    assert (library["allocator"], library["bits"], library["machine"]) == ("jemalloc", 64, "x86_64")
    assert (library["mode"], library["uid"]) == ("0644", os.getuid())
    assert library["sha256"] == hashlib.sha256((directory / "libjemalloc.so.2.0").read_bytes()).hexdigest()
    assert (library["usable"], library["reason"], library["message"]) == (True, None, None)


def test_the_soname_decides_and_not_the_files_name(root):
    add(root / "usr/lib64/libmy_jemalloc_build.so", "libmimalloc.so.2", bits=32, machine=3)
    library = found(root)[-1]
    assert (library["allocator"], library["bits"], library["machine"]) == ("mimalloc", 32, "i386")


def test_a_search_path_adds_directories_and_files(root):
    add(root / "opt/lib/libjemalloc.so.2", "libjemalloc.so.2")
    named = add(root / "opt/custom.so", "libcustom.so.1")
    listed = {library["path"]: library["allocator"] for library in found(root, root / "opt/lib", named)}
    assert listed[str(root / "opt/lib/libjemalloc.so.2")] == "jemalloc"
    assert listed[str(named)] is None


def test_a_link_that_is_named_is_listed_by_that_name(root):
    link = root / "usr/lib/x86_64-linux-gnu/libjemalloc.so"
    assert [library["path"] for library in found(root, link)] == [str(link), f"{link}.2"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (str, "does not exist"),
        (os.mkfifo, "is no regular file"),
        (lambda path: path.symlink_to(path), "is a link that leads nowhere"),
        (lambda path: path.symlink_to("/nowhere"), "is a link that leads nowhere (/nowhere)"),
    ],
)
def test_what_is_named_and_is_no_file_is_listed_with_what_it_is(root, make, words):
    make(root / "named.so")
    (named,) = (one for one in found(root, root / "named.so") if one["path"] == str(root / "named.so"))
    assert (named["usable"], named["reason"], named["sha256"]) == (False, "not_found", None)
    assert words in named["message"]


def test_what_others_can_replace_is_listed_as_unusable(root):
    (root / "usr/lib/x86_64-linux-gnu").chmod(0o777)
    [library] = found(root)
    assert (library["usable"], library["reason"]) == (False, "unsafe_path")
    assert "chmod go-w" in library["message"]


def test_a_named_file_that_is_no_library_is_listed_with_the_reason(root):
    text = root / "text.so"
    text.write_text("text")
    library = found(root, text)[0]
    assert (library["usable"], library["reason"], library["bits"]) == (False, "not_elf", None)


def test_packages_of_dpkg_are_read_from_their_file_lists(tmp_path):
    info = tmp_path / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (info / "libgoogle-perftools4:amd64.list").write_text(DPKG.read_text())
    (info / "libjemalloc2:amd64.list").write_text("/lib/x86_64-linux-gnu/libjemalloc.so.2\n")
    jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    assert owners([TCMALLOC, jemalloc, "/opt/x.so"], no_command, str(tmp_path)) == {
        TCMALLOC: "libgoogle-perftools4",
        jemalloc: "libjemalloc2",
    }


def test_packages_of_rpm_are_asked_for_in_one_command(tmp_path, monkeypatch):
    calls = []

    def run(argv, **_more):
        calls.append(argv)
        return Completed(1, "jemalloc\nfile /opt/x.so is not owned by any package\n", "")

    monkeypatch.setattr(module.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert owners(["/usr/lib64/libjemalloc.so.2", "/opt/x.so"], run, str(tmp_path)) == {
        "/usr/lib64/libjemalloc.so.2": "jemalloc"
    }
    assert len(calls) == 1


def test_without_libraries_no_package_manager_is_asked(tmp_path):
    assert owners([], no_command, str(tmp_path)) == {}
