"""What an archive holds is told by its content, and none can reach outside of the directory it is unpacked into."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import source_archive as module
from ansible_collections.fleet.mysqltune.plugins.module_utils.source_archive import (
    SourceError,
    check_holds,
    check_sha256,
    recognise,
    unpack,
)
from archives import gperftools, jemalloc, member, mimalloc, write

TOP = "jemalloc-5.3.0"


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_jemalloc_is_known_by_its_files_whatever_the_archives_name(tmp_path, ending):
    found = recognise(write(tmp_path / f"mimalloc-9.tar.{ending}", jemalloc()))
    assert (found.project, found.version, found.number, found.ready) == ("jemalloc", "5.3.0", 2, True)


def test_a_jemalloc_without_the_file_version_tells_it_in_its_change_log(tmp_path):
    files = jemalloc()
    del files[f"{TOP}/VERSION"], files[f"{TOP}/configure"]
    files[f"{TOP}/ChangeLog"] = "Highlights\n\n* 5.3.1 (Apr 13, 2026)\n\n* 5.3.0 (May 6, 2022)\n"
    found = recognise(write(tmp_path / "x.tar.gz", files))
    assert (found.version, found.ready) == ("5.3.1", False)


@pytest.mark.parametrize(
    ("init", "version"),
    [
        ("AC_INIT([gperftools],[2.16],[list])", "2.16"),
        ("AC_INIT(gperftools, 2.0, list)", "2.0"),
        ("AC_INIT(google-perftools,1.7,opensource@google.com)", "1.7"),
    ],
)
def test_gperftools_of_all_ages_is_known_with_the_number_of_its_soname(tmp_path, init, version):
    found = recognise(write(tmp_path / "x.tar.gz", gperftools(init)))
    assert (found.project, found.version, found.number, found.ready) == ("gperftools", version, 4, False)


def test_mimalloc_is_known_with_all_parts_of_its_version(tmp_path):
    found = recognise(write(tmp_path / "x.tar.xz", mimalloc()))
    assert (found.project, found.version, found.number, found.ready) == ("mimalloc", "3.0.1", 3, True)


def test_another_project_is_refused_with_what_was_found(tmp_path):
    path = write(tmp_path / "jemalloc-5.3.0.tar.gz", {"zlib-1.3/zlib.h": "", "zlib-1.3/README": ""})
    with pytest.raises(
        SourceError, match=r"none of gperftools, jemalloc, mimalloc: its directory zlib-1.3/ has README"
    ):
        recognise(path)


def test_a_version_that_would_be_a_path_is_no_version(tmp_path):
    with pytest.raises(SourceError, match="the source of none"):
        recognise(write(tmp_path / "x.tar.gz", gperftools("AC_INIT([gperftools],[2/../../x],[list])")))


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (member("/etc/cron.d/x"), "is not below one directory"),
        (member("../x"), "is not below one directory"),
        (member(f"{TOP}/../../etc/x"), "is not below one directory"),
        (member(f"{TOP}/dev", tarfile.CHRTYPE), "neither file, directory nor symbolic link"),
        (member(f"{TOP}/pipe", tarfile.FIFOTYPE), "neither file, directory nor symbolic link"),
        (member(f"{TOP}/hard", tarfile.LNKTYPE, "/etc/shadow"), "neither file, directory nor symbolic link"),
        (member(f"{TOP}/out", tarfile.SYMTYPE, "/etc"), "leads outside, to /etc"),
        (member(f"{TOP}/out", tarfile.SYMTYPE, "../.."), "leads outside"),
        (member(f"{TOP}/src/out", tarfile.SYMTYPE, "../../other"), "leads outside"),
        (member(f"{TOP}/VERSION"), "is there twice"),
        (member("other/x"), "and not one directory"),
    ],
)
def test_a_member_that_could_reach_outside_is_refused_and_named(tmp_path, info, words):
    path = write(tmp_path / "x.tar.gz", jemalloc(), info)
    with pytest.raises(SourceError, match=words):
        recognise(path)
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(SourceError, match=words):
        unpack(path, str(inside))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["inside", "x.tar.gz"]


def test_nothing_is_written_through_a_link_even_one_that_stays_inside(tmp_path):
    first = (member(f"{TOP}/here", tarfile.SYMTYPE, "src"),)
    path = write(tmp_path / "x.tar.gz", jemalloc(), member(f"{TOP}/here/../x"), first=first)
    with pytest.raises(SourceError, match="not below one directory"):
        recognise(path)
    path = write(tmp_path / "x.tar.gz", jemalloc(), member(f"{TOP}/here/x"), first=first)
    with pytest.raises(SourceError, match="goes through a link"):
        recognise(path)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_a_truncated_archive_is_refused(tmp_path, ending):
    files = {**jemalloc(), f"{TOP}/noise": os.urandom(200_000).hex()}
    path = Path(write(tmp_path / f"x.tar.{ending}", files))
    whole = path.read_bytes()
    for length in (1, 100, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:length])
        with pytest.raises(SourceError, match=r"is no (whole tar|\.tar\.gz)"):
            recognise(str(path))


def test_what_is_no_archive_is_refused(tmp_path):
    path = tmp_path / "x.tar.gz"
    for content, words in [
        (b"", r"is no \.tar\.gz"),
        (b"PK\3\4", r"is no \.tar\.gz"),
        (gzip.compress(b"text"), "no whole"),
    ]:
        path.write_bytes(content)
        with pytest.raises(SourceError, match=words):
            recognise(str(path))


def test_a_huge_file_is_refused_by_its_announced_size(tmp_path):
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(member(f"{TOP}/zeros", size=1 << 40).tobuf()))
    with pytest.raises(SourceError, match="is more than 512 MiB unpacked"):
        recognise(str(path))


def test_a_header_that_unpacks_without_end_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_UNPACKED", 10 << 20)
    path = tmp_path / "x.tar.gz"
    header = member("pax", tarfile.XHDTYPE, size=1 << 30).tobuf()
    path.write_bytes(gzip.compress(header + bytes(64 << 20)))
    with pytest.raises(SourceError, match="is more than 10 MiB unpacked"):
        recognise(str(path))


def test_too_many_members_and_too_large_an_archive_are_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "x.tar.gz", jemalloc())
    monkeypatch.setattr(module, "MAX_MEMBERS", 4)
    with pytest.raises(SourceError, match="more than 4 members"):
        recognise(path)
    monkeypatch.setattr(module, "MAX_ARCHIVE", 10)
    with pytest.raises(SourceError, match="no source of an allocator has more"):
        recognise(path)


def test_an_archive_holds_only_the_allocators_of_its_project(tmp_path):
    path = write(tmp_path / "x.tar.gz", gperftools())
    check_holds(path, recognise(path), "tcmalloc")
    check_holds(path, recognise(path), "tcmalloc_minimal")
    with pytest.raises(
        SourceError,
        match=r"holds gperftools 2\.16, which builds tcmalloc or tcmalloc_minimal and not jemalloc",
    ):
        check_holds(path, recognise(path), "jemalloc")


def test_the_hash_is_compared_and_both_are_named():
    check_sha256("x", "ab" * 32, "")
    check_sha256("x", "ab" * 32, "AB" * 32)
    with pytest.raises(SourceError, match=f"has the sha256 {'ab' * 32}, and not {'cd' * 32}"):
        check_sha256("x", "ab" * 32, "cd" * 32)


def test_unpacked_files_keep_their_times_and_no_mode_that_others_could_use(tmp_path):
    loose = member(f"{TOP}/loose")
    loose.mode, loose.uid = 0o6777, 12345
    link = member(f"{TOP}/link", tarfile.SYMTYPE, "src/jemalloc.c")
    path = write(tmp_path / "x.tar.gz", jemalloc(), loose, link)
    inside = tmp_path / "inside"
    inside.mkdir()
    unpack(path, str(inside))
    assert (inside / "configure").stat().st_mode & 0o7777 == 0o755
    assert (inside / "configure").stat().st_mtime == 1_000_000_000
    assert (inside / "loose").stat().st_mode & 0o7777 == 0o755
    assert (inside / "loose").stat().st_uid == os.getuid()
    assert os.readlink(inside / "link") == "src/jemalloc.c"


def test_names_that_begin_with_a_dot_are_the_same_names(tmp_path):
    dotted = {f"./{name}": text for name, text in jemalloc().items()}
    path = write(tmp_path / "x.tar.gz", dotted, first=(member("./", tarfile.DIRTYPE),))
    assert recognise(path).project == "jemalloc"
