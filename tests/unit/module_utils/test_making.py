"""Real builds of a project as small as can be: a configure script, one C file, and the host's own compiler."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import packed
from ansible_collections.fleet.mysqltune.plugins.module_utils.built import library, read_mark, source_of
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed, run
from ansible_collections.fleet.mysqltune.plugins.module_utils.libraries import libraries
from ansible_collections.fleet.mysqltune.plugins.module_utils.making import Order, make
from ansible_collections.fleet.mysqltune.plugins.module_utils.observe import built_directories
from ansible_collections.fleet.mysqltune.plugins.module_utils.source_archive import Source, SourceError
from ansible_collections.fleet.mysqltune.plugins.module_utils.source_build import (
    Workshop,
    check_glibc,
    needed_glibc,
    options,
    steps,
    tools,
)
from archives import jemalloc, write
from programs import ALLOCATOR

PACKAGES = {"debian": {"cc": "gcc", "make": "make"}}


@pytest.fixture
def top(tmp_path):
    os.chmod(tmp_path, 0o755)
    os.umask(0o022)
    return tmp_path


def workshop(top, name="prefix", **changes):
    return Workshop(str(top / name), root_uid=os.getuid(), root=str(top), **changes)


def source(top, name="source.tar.gz", code=ALLOCATOR, **changes):
    return write(top / name, jemalloc(code, **changes))


def tree(top):
    return sorted((str(path), path.lstat().st_mtime_ns) for path in top.rglob("*"))


def test_the_first_call_builds_and_proves_and_the_second_changes_nothing(top):
    order = Order(source(top), "jemalloc")
    made = make(order, workshop(top))
    place = top / "prefix/jemalloc-5.3.0"
    assert (made.changed, made.project, made.version) == (True, "jemalloc", "5.3.0")
    assert made.library == str(place / "lib/libjemalloc.so.2")
    assert sorted(path.name for path in (place / "lib").iterdir()) == ["libjemalloc.so", "libjemalloc.so.2"]
    assert {oct(path.stat().st_mode & 0o7777) for path in (place, place / "lib")} == {"0o755"}
    assert (place / "lib/libjemalloc.so.2").stat().st_mode & 0o7777 == 0o644
    assert (place / "COPYING").read_text() == "free\n"
    assert sorted(path.name for path in (top / "prefix").iterdir()) == [".lock", "jemalloc-5.3.0"]
    before = tree(place)
    again = make(order, workshop(top))
    assert (again.changed, again.library) == (False, made.library)
    assert tree(place) == before


def test_what_was_built_is_found_without_being_named_and_tells_its_archive(top):
    made = make(Order(source(top), "jemalloc"), workshop(top))
    directories = built_directories(str(top / "prefix"))
    [found] = [
        one for one in libraries(directories, run, str(top), os.getuid()) if one["path"] == made.library
    ]
    mark = read_mark(str(top / "prefix/jemalloc-5.3.0"))
    assert (found["allocator"], found["source"]) == ("jemalloc", mark["source_sha256"])
    assert found["usable"], found["message"]
    assert source_of("/usr/lib/libjemalloc.so.2") is None


def test_check_mode_predicts_the_path_and_touches_nothing(top):
    order = Order(source(top), "jemalloc")
    before = tree(top)
    would = make(order, workshop(top), check=True)
    assert (would.changed, would.library) == (True, str(top / "prefix/jemalloc-5.3.0/lib/libjemalloc.so.2"))
    assert tree(top) == before
    assert make(order, workshop(top)).library == would.library


def test_without_the_number_of_the_soname_the_link_is_predicted():
    assert library("/opt/x", "jemalloc", "1.0", None) == "/opt/x/jemalloc-1.0/lib/libjemalloc.so"
    assert library("/opt/x", "tcmalloc_minimal", "2.15", 4).endswith("/lib/libtcmalloc_minimal.so.4")


def test_another_archive_of_the_same_version_takes_the_place(top):
    make(Order(source(top), "jemalloc"), workshop(top))
    first = read_mark(str(top / "prefix/jemalloc-5.3.0"))["source_sha256"]
    other = Order(source(top, "other.tar.gz", code=ALLOCATOR + "int other;\n"), "jemalloc")
    assert make(other, workshop(top)).changed
    assert read_mark(str(top / "prefix/jemalloc-5.3.0"))["source_sha256"] != first
    assert not make(other, workshop(top)).changed


def test_other_options_than_those_of_today_are_built_again(top):
    order = Order(source(top), "jemalloc")
    make(order, workshop(top))
    mark = top / "prefix/jemalloc-5.3.0/fleet-mysqltune.json"
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "options": ["--enable-debug"]}))
    assert make(order, workshop(top)).changed
    assert not make(order, workshop(top)).changed


def test_what_a_killed_build_left_is_cleared_away(top):
    left = top / "prefix/.build-x"
    left.mkdir(parents=True)
    (left / "half").touch()
    make(Order(source(top), "jemalloc"), workshop(top))
    assert not left.exists()


def test_the_build_is_told_to_be_alive_and_runs_at_the_lowest_priority(top):
    seen, alive = [], []

    def watched(argv, **more):
        seen.append(list(argv))
        return run(argv, **more)

    make(Order(source(top), "jemalloc"), workshop(top, run=watched, alive=lambda: alive.append(1)))
    builds = [argv for argv in seen if argv[0] == "nice"]
    assert [argv[:3] for argv in builds] == [["nice", "-n", "19"]] * 2
    assert builds[1][3:] == ["make", f"-j{len(os.sched_getaffinity(0))}", "build_lib_shared"]
    assert len(alive) == 2


def refused(top, order, words, **changes):
    before = [path for path in tree(top) if "/prefix/" not in path[0]]
    with pytest.raises(SourceError, match=words):
        make(order, workshop(top, **changes))
    assert [path.name for path in (top / "prefix").glob("*")] in ([], [".lock"])
    assert [path[0] for path in tree(top) if "/prefix" not in path[0]] == [
        path[0] for path in before if "/prefix" not in path[0]
    ]


def test_a_build_that_fails_says_so_in_the_compilers_words_and_leaves_nothing(top):
    words = r"(?s)jemalloc 5\.3\.0 could not be built: `make .*error: "
    refused(top, Order(source(top, code="this is no C\n"), "jemalloc"), words)


def test_a_library_that_is_not_what_its_project_says_is_refused(top):
    order = Order(source(top, soname="libother.so.1"), "jemalloc")
    refused(top, order, r"what was built is libother\.so\.1, and not jemalloc")


def test_a_library_that_does_not_load_is_refused_in_the_linkers_words(top):
    broken = "void not_there(void); void *malloc(unsigned long n) { (void) n; not_there(); return 0; }\n"
    eager = jemalloc(broken)
    name = "jemalloc-5.3.0/configure"
    eager[name] = eager[name].replace("-shared", "-shared -Wl,-z,now")
    order = Order(write(top / "x.tar.gz", eager), "jemalloc")
    refused(top, order, r"(?s)does not load on this host: .*not_there.*allocator_source_host")


def test_a_prefix_that_others_could_write_to_is_refused(top):
    (top / "prefix").mkdir()
    (top / "prefix").chmod(0o777)
    refused(top, Order(source(top), "jemalloc"), r"could be replaced by others than root.*chmod go-w")


def test_a_missing_program_is_named_with_its_package(top, monkeypatch):
    (top / "etc").mkdir()
    (top / "etc/os-release").write_text("ID=raspbian\nID_LIKE=debian\n")
    monkeypatch.setenv("PATH", str(top))
    order = Order(source(top), "jemalloc", tool_packages=PACKAGES)
    with pytest.raises(SourceError, match=r"without cc, c\+\+, make\. Install gcc make, or name a host"):
        make(order, workshop(top))
    would = make(order, workshop(top), check=True)
    assert (would.missing, would.family, would.packages) == (["cc", "c++", "make"], "debian", ["gcc", "make"])


def test_the_wrong_hash_the_wrong_allocator_and_no_file_are_refused(top):
    path = source(top)
    for order, words in [
        (Order(path, "jemalloc", sha256="0" * 64), "and not 0000"),
        (Order(path, "tcmalloc"), "which builds jemalloc and not tcmalloc"),
        (Order(str(top / "gone.tar.gz"), "jemalloc"), "is not there"),
    ]:
        with pytest.raises(SourceError, match=words):
            make(order, workshop(top))
    assert not (top / "prefix").exists()


def packed_for_others(top, form):
    order = Order(source(top), "jemalloc", form=form, pack_only=True)
    made = make(order, workshop(top))
    assert made.changed
    assert not (top / "prefix/jemalloc-5.3.0").exists()
    again = make(order, workshop(top))
    assert (again.changed, again.packed) == (False, made.packed)
    return made.packed


def test_what_one_host_packs_another_installs_once(top):
    order = Order(packed_for_others(top, "prefix"), "jemalloc")
    first = make(order, workshop(top, "elsewhere"))
    assert (first.changed, first.library) == (
        True,
        str(top / "elsewhere/jemalloc-5.3.0/lib/libjemalloc.so.2"),
    )
    assert not make(order, workshop(top, "elsewhere")).changed
    assert make(order, workshop(top, "third"), check=True).changed
    assert not (top / "third").exists()


def test_a_packed_file_of_another_archive_or_allocator_is_refused(top):
    path = packed_for_others(top, "prefix")
    with pytest.raises(SourceError, match="built from another archive"):
        make(Order(path, "jemalloc", sha256="0" * 64), workshop(top, "elsewhere"))
    with pytest.raises(SourceError, match="holds jemalloc, not mimalloc"):
        make(Order(path, "mimalloc"), workshop(top, "elsewhere"))


def test_a_packed_library_that_needs_a_newer_c_library_is_refused_with_both_versions(top):
    packed_for_others(top, "prefix")
    newer = _remade(top, glibc="9.99")
    with pytest.raises(SourceError, match=r"needs glibc 9\.99, and this host has glibc \d"):
        make(Order(newer, "jemalloc"), workshop(top, "elsewhere"))
    assert not (top / "elsewhere/jemalloc-5.3.0").exists()


def _remade(top, **changes):
    """Write the packed archive again with another mark."""
    [old] = (top / "prefix/packages").glob("*.tar.gz")
    new = str(top / "newer.tar.gz")
    with tarfile.open(old) as before, tarfile.open(new, "w:gz") as after:
        for info in before:
            data = before.extractfile(info).read() if info.isreg() else b""
            if info.name.endswith(".json"):
                data = json.dumps({**json.loads(data), **changes}).encode()
            info.size = len(data)
            after.addfile(info, io.BytesIO(data))
    return new


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="Debian packages are made on Debian")
def test_a_debian_package_has_the_same_tree_and_dpkg_is_asked_to_install_it(top):
    path = packed_for_others(top, "deb")
    fields = run(["dpkg-deb", "--field", path]).out
    assert "Package: fleet-mysqltune-jemalloc\nVersion: 5.3.0\n" in fields
    listed = run(["dpkg-deb", "--contents", path]).out
    assert f".{top}/prefix/jemalloc-5.3.0/lib/libjemalloc.so.2" in listed
    asked = []

    def no_dpkg(argv, **more):
        if argv[:2] == ["dpkg", "--install"]:
            asked.append(argv[2])
            return Completed(0, "", "")
        return run(argv, **more)

    made = make(Order(path, "jemalloc", form="deb"), workshop(top, run=no_dpkg))
    assert (made.changed, asked) == (True, [path])


def test_a_debian_package_is_refused_where_there_is_no_dpkg(top):
    def none(argv, **_more):
        return Completed(127, "", f"{argv[0]}: No such file or directory")

    with pytest.raises(SourceError, match="Use allocator_source_install: prefix"):
        packed.install_deb("x.deb", workshop(top, run=none))


def test_the_control_file_asks_for_what_the_library_needs():
    mark = {
        "allocator": "tcmalloc_minimal",
        "project": "gperftools",
        "version": "2.10",
        "source_sha256": "ab",
        "glibc": "2.34",
        "needed": ["libstdc++.so.6", "libc.so.6"],
    }
    text = packed.control(mark, "arm64")
    assert "Package: fleet-mysqltune-tcmalloc-minimal\n" in text
    assert "Architecture: arm64\nDepends: libc6 (>= 2.34), libstdc++6\n" in text


@pytest.mark.parametrize(
    ("needed", "present", "good"),
    [
        ("2.34", "glibc 2.36", True),
        ("2.4", "glibc 2.36", True),
        ("2.38", "glibc 2.36", False),
        ("", "glibc 2.17", True),
    ],
)
def test_versions_of_the_c_library_are_compared_as_numbers(needed, present, good):
    if good:
        check_glibc("jemalloc", needed, present)
    else:
        with pytest.raises(
            SourceError, match=r"needs glibc 2\.38, and this host has glibc 2\.36\. Build on the oldest"
        ):
            check_glibc("jemalloc", needed, present)


def test_the_newest_version_that_a_file_asks_for_counts(tmp_path):
    (tmp_path / "x").write_bytes(b"\0GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.2.5\0XGLIBC_2.99\0GLIBC_PRIVATE\0")
    assert needed_glibc(str(tmp_path / "x")) == "2.34"


def of(project, *, ready=True):
    return Source(project, "1.0", "00", 1, ready)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (of("jemalloc"), ["cc", "c++", "make"]),
        (of("mimalloc"), ["cc", "c++", "make", "cmake"]),
        (of("jemalloc", ready=False), ["cc", "c++", "make", "autoconf"]),
        (of("gperftools", ready=False), ["cc", "c++", "make", "autoconf", "automake", "libtoolize"]),
    ],
)
def test_only_the_programs_that_a_build_uses_are_needed(found, expected):
    assert tools(found) == expected


def test_every_build_is_a_release_build_of_the_one_library():
    assert steps(of("gperftools"), "tcmalloc_minimal", "x86_64", 3)[-1] == [
        "make",
        "-j3",
        "libtcmalloc_minimal.la",
    ]
    assert "--enable-minimal" in options(of("gperftools"), "tcmalloc_minimal", "x86_64")
    full = options(of("gperftools"), "tcmalloc", "x86_64")
    assert "--enable-minimal" not in full and "--disable-debugalloc" in full
    assert "-DMI_BUILD_TESTS=OFF" in steps(of("mimalloc"), "mimalloc", "x86_64", 1)[0]
    assert "--disable-prof" in options(of("jemalloc"), "jemalloc", "x86_64")
    assert steps(of("jemalloc", ready=False), "jemalloc", "x86_64", 1)[0][:2] == ["sh", "-c"]


def test_jemalloc_is_built_for_large_pages_where_a_kernel_may_have_them():
    assert "--with-lg-page=16" in options(of("jemalloc"), "jemalloc", "aarch64")
    assert "--with-lg-page=16" not in options(of("jemalloc"), "jemalloc", "x86_64")
