from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.allocators import LIBRARIES, classify
from ansible_collections.fleet.mysqltune.plugins.module_utils.packages import PACKAGES, package_for


def system(name, version, like=""):
    return {"id": name, "version": version, "like": like.split()}


@pytest.mark.parametrize(
    ("distribution", "allocator", "expected"),
    [
        (system("debian", "11"), "tcmalloc", "libgoogle-perftools4"),
        (system("debian", "11"), "mimalloc", None),
        (system("debian", "12"), "tcmalloc_minimal", "libtcmalloc-minimal4"),
        (system("debian", "13"), "tcmalloc_minimal", "libtcmalloc-minimal4t64"),
        (system("debian", "13"), "mimalloc", "libmimalloc3"),
        (system("debian", "14"), "mimalloc", "libmimalloc3"),
        (system("debian", ""), "tcmalloc", "libgoogle-perftools4t64"),
        (system("raspbian", "12", "debian"), "jemalloc", "libjemalloc2"),
        (system("ubuntu", "20.04", "debian"), "mimalloc", None),
        (system("ubuntu", "22.04", "debian"), "jemalloc", "libjemalloc2"),
        (system("ubuntu", "24.04", "debian"), "tcmalloc", "libgoogle-perftools4t64"),
        (system("ubuntu", "24.04", "debian"), "mimalloc", "libmimalloc2.0"),
        (system("ubuntu", "25.10", "debian"), "mimalloc", "libmimalloc3"),
        (system("ubuntu", "30.04", "debian"), "jemalloc", None),
        (system("centos", "7", "rhel fedora"), "jemalloc", "jemalloc"),
        (system("rhel", "8.10", "fedora"), "jemalloc", "jemalloc"),
        (system("rocky", "9.4", "rhel centos fedora"), "tcmalloc", "gperftools-libs"),
        (system("almalinux", "10.0", "rhel centos fedora"), "mimalloc", "mimalloc"),
        (system("ol", "9.4", "fedora"), "tcmalloc", "gperftools-libs"),
        (system("rocky", "12.0", "rhel centos fedora"), "jemalloc", None),
        (system("fedora", "43"), "tcmalloc_minimal", "gperftools-libs"),
        (system("amzn", "2023", "fedora"), "jemalloc", "jemalloc"),
        (system("amzn", "2023", "fedora"), "mimalloc", None),
        (system("opensuse-leap", "15.6", "suse opensuse"), "tcmalloc_minimal", "libtcmalloc_minimal4"),
        (system("sles", "15.5", "suse"), "jemalloc", "libjemalloc2"),
        (system("opensuse-tumbleweed", "20251130", "opensuse suse"), "tcmalloc", "libtcmalloc4"),
        (system("openindiana", "2025.10"), "umem", "system/library"),
        (system("omnios", "r151054"), "mtmalloc", "system/library"),
        (system("smartos", "20250101"), "jemalloc", "jemalloc"),
        (system("debian", "12"), "hoard", None),
        (system("debian", "12"), "system", None),
        (system("", ""), "tcmalloc", None),
    ],
)
def test_the_package_follows_from_the_distribution(distribution, allocator, expected):
    found = package_for(allocator, distribution)
    assert (found.name if found else None) == expected


@pytest.mark.parametrize(
    ("distribution", "allocator", "path"),
    [
        (system("debian", "12"), "tcmalloc", "/usr/lib/aarch64-linux-gnu/libtcmalloc.so.4"),
        (system("centos", "7", "rhel"), "jemalloc", "/usr/lib64/libjemalloc.so.1"),
        (system("openindiana", "2025.10"), "umem", "/usr/lib/64/libumem.so.1"),
    ],
)
def test_the_librarys_path_is_predicted_for_the_daemon(distribution, allocator, path):
    assert package_for(allocator, distribution).library.format(machine="aarch64", bits=64) == path


ENTRIES = [
    (key, allocator, found) for key, packages in PACKAGES.items() for allocator, found in packages.items()
]


def test_every_entry_names_a_library_of_its_allocator_and_never_a_debug_or_profiling_build():
    for key, allocator, found in ENTRIES:
        assert allocator in LIBRARIES, key
        assert classify(found.library) == allocator, key
        assert "debug" not in found.name and "profiler" not in found.name, key


def test_exactly_the_entries_that_the_command_proves_are_called_checked():
    assert {key[0] for key, _name, found in ENTRIES if found.checked} == {"debian"}
    assert all(found.checked for key, _name, found in ENTRIES if key[0] == "debian")
    assert all(found.source for _key, _name, found in ENTRIES)
