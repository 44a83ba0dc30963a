# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_arms import arms

DEBIAN = {"id": "debian", "version": "12", "like": []}
LIB = "/usr/lib/x86_64-linux-gnu/"


def library(path: str, allocator: str, **facts: Any) -> dict[str, Any]:
    known = {
        "real_path": path,
        "bits": 64,
        "machine": "x86_64",
        "package": "p",
        "usable": True,
        "reason": None,
    }
    return {"path": path, "allocator": allocator, "message": None, **known, **facts}


def instance(**allocator: Any) -> dict[str, Any]:
    facts = {"linked": None, "configured": [], "resolved": {}, "name": "system", **allocator}
    return {
        "name": "mariadb.service",
        "exe": "/usr/sbin/mariadbd",
        "bits": 64,
        "machine": "x86_64",
        "allocator": facts,
    }


def observed(*libraries: dict[str, Any], instances: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    host = {"machine": "x86_64", "distribution": DEBIAN}
    return {
        "host": host,
        "libraries": list(libraries),
        "instances": [instance()] if instances is None else instances,
    }


def paths(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {arm["allocator"]: arm["library"] for arm in found}


TCMALLOC, JEMALLOC = (
    library(LIB + "libtcmalloc.so.4", "tcmalloc"),
    library(LIB + "libjemalloc.so.2", "jemalloc"),
)


def test_each_allocator_of_the_host_is_measured_by_one_library() -> None:
    own = library("/usr/local/lib/libtcmalloc.so.4", "tcmalloc", package=None)
    assert paths(arms(observed(own, TCMALLOC, JEMALLOC))) == {
        "tcmalloc": LIB + "libtcmalloc.so.4",
        "jemalloc": LIB + "libjemalloc.so.2",
    }


def test_the_library_that_the_server_preloads_already_is_the_one_that_counts() -> None:
    own = library("/opt/lib/libtcmalloc.so.4", "tcmalloc", package=None)
    server = instance(configured=["/opt/lib/libtcmalloc.so.4"])
    assert paths(arms(observed(TCMALLOC, own, instances=[server]))) == {"tcmalloc": own["path"]}


def test_what_cannot_be_used_is_left_out_unless_it_was_named() -> None:
    unsafe = library(
        LIB + "libjemalloc.so.2", "jemalloc", usable=False, reason="unsafe_path", message="chmod it"
    )
    seen = observed(TCMALLOC, unsafe)
    assert paths(arms(seen)) == {"tcmalloc": TCMALLOC["path"]}
    (named,) = arms(seen, ["jemalloc"])
    assert (named["library"], named["reason"], named["message"]) == (None, "unsafe_path", "chmod it")


def test_a_missing_allocator_that_was_named_comes_with_its_package() -> None:
    (arm,) = arms(observed(TCMALLOC), ["jemalloc"])
    assert arm["reason"] == "not_found" and "Install the package libjemalloc2" in arm["message"]
    (odd,) = arms(observed(TCMALLOC), ["hoard"])
    assert "malloc_benchmark_allocators" in odd["message"]


def test_a_daemon_with_a_linked_allocator_says_nothing_about_the_loop() -> None:
    seen = observed(TCMALLOC, JEMALLOC, instances=[instance(linked="libtcmalloc.so.4", name="tcmalloc")])
    assert set(paths(arms(seen))) == {"tcmalloc", "jemalloc"}


def test_a_host_without_a_server_is_measured_with_what_its_programs_can_load() -> None:
    small = library("/usr/lib/i386-linux-gnu/libjemalloc.so.2", "jemalloc", bits=32, machine="i386")
    assert paths(arms(observed(TCMALLOC, small, instances=[]))) == {"tcmalloc": TCMALLOC["path"]}


def test_the_system_is_measured_anyway_and_a_path_stands_for_itself() -> None:
    own = library("/opt/libmine.so", None)  # type: ignore[arg-type]
    found = arms(observed(TCMALLOC, own), ["system", "tcmalloc", "/opt/libmine.so", "tcmalloc"])
    assert paths(found) == {"tcmalloc": TCMALLOC["path"], "/opt/libmine.so": "/opt/libmine.so"}
