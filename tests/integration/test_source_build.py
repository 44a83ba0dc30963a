# SPDX-License-Identifier: GPL-3.0-or-later
"""Each project is really built on a host, in each of the ways, and the server runs on it. A build takes minutes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from live import BYTES, ROOT, Done, Host, Lab

sys.path.insert(0, str(ROOT / "docs"))
from check_packages import Suite, mirror

PREFIX = "/opt/fleet-mysqltune"
PROJECTS = {"gperftools": "google-perftools", "jemalloc": "jemalloc", "mimalloc": "mimalloc"}
NOTHING_BUILT = f"""
dpkg-query --show --showformat '${{Package}} ' 'fleet-mysqltune-*' 2>/dev/null | xargs -r dpkg --purge >/dev/null
rm -rf {PREFIX}
"""


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The projects' own archives, from Debian's source packages."""
    folder = tmp_path_factory.mktemp("sources")
    suite = Suite(folder, mirror(), "bookworm", "amd64", kind="deb-src")
    suite.apt("source", "--download-only", *PROJECTS.values())
    return {name: str(next(folder.glob(f"{package}_*.orig.tar.*"))) for name, package in PROJECTS.items()}


@pytest.fixture
def host(deb12: Host) -> Host:
    deb12.sh(NOTHING_BUILT)
    return deb12


@pytest.fixture
def builder(lab: Lab) -> Host:
    if "plain12" not in lab.hosts:
        pytest.skip("the lab has no plain12: ./run lab up deb12 plain12")
    lab.hosts["plain12"].sh(NOTHING_BUILT)
    return lab.hosts["plain12"]


def tune(lab: Lab, *options: str, **variables: Any) -> Done:
    """Run tune.yml for deb12 with the patience that a build needs."""
    process = lab.start("tune.yml", "deb12", *options, **variables)
    out, _ = process.communicate(timeout=1800)
    return Done(process.returncode, out)


def assert_built_once_and_undone(lab: Lab, host: Host, library: str, **wanted: Any) -> None:
    """The library is the one that was built; a second run changes nothing; the undo leaves it, and the old bytes."""
    before = host.tree(BYTES)
    first = tune(lab, **wanted)
    assert first.rc == 0, first.out
    assert host.effective(library)
    assert host.sh(f"find {PREFIX} ! -type l \\( ! -user root -o -perm /022 \\)") == ""
    state = host.tree(), host.pid()

    second = tune(lab, **wanted)

    assert second.rc == 0 and second.counted("deb12", "changed") == 0, second.out
    assert (host.tree(), host.pid()) == state
    assert lab.play("rollback.yml", "deb12").rc == 0
    assert not host.effective(library) and host.tree(BYTES) == before
    assert host.sh(f"ls {library}*")


def test_jemalloc_is_built_by_the_host_itself_into_the_prefix(
    lab: Lab, host: Host, sources: dict[str, str]
) -> None:
    wanted = {"allocator_name": "jemalloc", "allocator_source": sources["jemalloc"]}
    before = host.tree(), host.sh(f"ls {PREFIX} 2>&1", check=False)

    would = tune(lab, "--check", "--diff", **wanted)

    assert would.rc == 0, would.out
    assert "would build jemalloc from jemalloc 5." in would.said
    assert f"+LD_PRELOAD={PREFIX}/jemalloc-5." in would.out and "/lib/libjemalloc.so.2" in would.out
    assert (host.tree(), host.sh(f"ls {PREFIX} 2>&1", check=False)) == before
    assert_built_once_and_undone(lab, host, f"{PREFIX}/jemalloc-5", **wanted)


def test_mimalloc_is_built_and_installed_as_a_debian_package(
    lab: Lab, host: Host, sources: dict[str, str]
) -> None:
    assert_built_once_and_undone(
        lab,
        host,
        f"{PREFIX}/mimalloc-2",
        allocator_name="mimalloc",
        allocator_source=sources["mimalloc"],
        allocator_source_install="deb",
    )
    assert "fleet-mysqltune-mimalloc" in host.sh(f"dpkg --search {PREFIX}/mimalloc-*/lib/libmimalloc.so.2")
    assert host.sh(f"ls {PREFIX}/packages/fleet-mysqltune-mimalloc_*.deb")


@pytest.mark.parametrize(
    ("name", "form"), [("tcmalloc", "deb"), ("tcmalloc_minimal", "prefix")], ids=["deb", "prefix"]
)
def test_gperftools_is_built_by_another_host_and_brought(
    lab: Lab, host: Host, builder: Host, sources: dict[str, str], name: str, form: str
) -> None:
    assert_built_once_and_undone(
        lab,
        host,
        f"{PREFIX}/{name}-2",
        allocator_name=name,
        allocator_source=sources["gperftools"],
        allocator_source_install=form,
        allocator_source_host="plain12",
    )
    assert not builder.sh(f"ls -d {PREFIX}/{name}-* 2>/dev/null", check=False)
    assert builder.sh(f"ls {PREFIX}/packages/*{name.replace('_', '?')}*2.*")
    assert not builder.sh("ls -d /tmp/*fleet-mysqltune* 2>/dev/null", check=False)
    assert not host.sh("ls -d /tmp/*fleet-mysqltune* 2>/dev/null", check=False)


def assert_refused(
    lab: Lab, host: Host, *words: str, options: tuple[str, ...] = (), **variables: Any
) -> Done:
    before = host.tree(BYTES), host.pid()
    done = tune(lab, *options, **variables)
    assert done.rc != 0 and done.counted("deb12", "failed") == 1, done.out
    assert not [word for word in words if word not in done.said], done.out
    assert (host.tree(BYTES), host.pid()) == before
    assert host.sh(f"ls {PREFIX}/*/lib 2>/dev/null", check=False) == ""
    return done


def test_an_archive_without_the_allocator_is_refused_before_the_host_is_asked(
    lab: Lab, host: Host, sources: dict[str, str]
) -> None:
    words = ("holds jemalloc 5.", "which builds jemalloc and not tcmalloc", "Set allocator_name to jemalloc")
    assert_refused(lab, host, *words, allocator_name="tcmalloc", allocator_source=sources["jemalloc"])
    assert not host.touched()


def test_a_build_that_fails_leaves_the_server_and_the_prefix_as_they_were(
    lab: Lab, host: Host, tmp_path: Path
) -> None:
    sys.path.insert(0, str(ROOT / "tests/unit/module_utils"))
    from archives import jemalloc, write

    words = ("jemalloc 5.3.0 could not be built", "error:")
    archive = write(tmp_path / "broken.tar.gz", jemalloc("this is no C\n"))
    assert_refused(lab, host, *words, allocator_name="jemalloc", allocator_source=archive)


def test_a_library_built_on_a_newer_system_is_refused_with_both_versions(
    lab: Lab, host: Host, sources: dict[str, str]
) -> None:
    if "deb13" not in lab.hosts:
        pytest.skip("the lab has no deb13: ./run lab up deb12 deb13 plain12")
    lab.hosts["deb13"].sh(NOTHING_BUILT)
    assert_refused(
        lab,
        host,
        "this tcmalloc_minimal needs glibc 2.38, and this host has glibc 2.36",
        "Build on the oldest system of the fleet",
        allocator_name="tcmalloc_minimal",
        allocator_source=sources["gperftools"],
        allocator_source_host="deb13",
    )


def test_a_building_host_that_is_lost_takes_no_other_with_it(
    lab: Lab, host: Host, sources: dict[str, str], tmp_path: Path
) -> None:
    ghost = tmp_path / "ghost.yml"
    ghost.write_text("all: {hosts: {ghost: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n")
    done = assert_refused(
        lab,
        host,
        "ghost, the allocator_source_host, cannot be reached",
        options=("--inventory", str(ghost)),
        allocator_name="jemalloc",
        allocator_source=sources["jemalloc"],
        allocator_source_host="ghost",
    )
    assert done.counted("deb12", "unreachable") == 0
