# SPDX-License-Identifier: GPL-3.0-or-later
"""Which package of which release brings which allocator, and where its library will be. Data, and its look-up. Pure."""

from __future__ import annotations

from typing import Dict, Iterator, Mapping, NamedTuple, Optional, Tuple


class Package(NamedTuple):
    """A package and its library; ``checked``: ``docs/check_packages.py`` has found both in the release itself.

    ``library`` may contain ``{machine}`` and ``{bits}``, those of the daemon. ``source`` says how the entry is known.
    """

    name: str
    library: str
    checked: bool
    source: str


Release = Dict[str, Package]
"""The packages of one release, by allocator."""

FILE_LISTS = "Ubuntu's published file lists"
FEDORA = "Fedora's package database"
ILLUMOS = "illumos-gate, package manifest system-library"
PKGSRC = "pkgsrc, PLIST files of devel/jemalloc and devel/gperftools"


def _debian(package: str, soname: str) -> Package:
    return Package(package, "/usr/lib/{machine}-linux-gnu/" + soname, True, "docs/check_packages.py")


def _ubuntu(release: Release) -> Release:
    """Return Debian's names, which Ubuntu takes over, as what they are there: read and not tried."""
    return {name: found._replace(checked=False, source=FILE_LISTS) for name, found in release.items()}


def _unchecked(source: str, directory: str, **names: str) -> Release:
    """Return entries that could not be tried: ``allocator="PACKAGE SONAME"``."""
    parts = {allocator: value.split() for allocator, value in names.items()}
    return {
        name: Package(package, directory + soname, False, source) for name, (package, soname) in parts.items()
    }


_BULLSEYE = {
    "tcmalloc": _debian("libgoogle-perftools4", "libtcmalloc.so.4"),
    "tcmalloc_minimal": _debian("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
    "jemalloc": _debian("libjemalloc2", "libjemalloc.so.2"),
}
_BOOKWORM = {**_BULLSEYE, "mimalloc": _debian("libmimalloc2.0", "libmimalloc.so.2")}
_NOBLE = {
    **_BOOKWORM,
    "tcmalloc": _debian("libgoogle-perftools4t64", "libtcmalloc.so.4"),
    "tcmalloc_minimal": _debian("libtcmalloc-minimal4t64", "libtcmalloc_minimal.so.4"),
}
_TRIXIE = {**_NOBLE, "mimalloc": _debian("libmimalloc3", "libmimalloc.so.3")}

_GPERFTOOLS = {
    "tcmalloc": "gperftools-libs libtcmalloc.so.4",
    "tcmalloc_minimal": "gperftools-libs libtcmalloc_minimal.so.4",
}
_EL7 = _unchecked(
    f"{FEDORA} (jemalloc is in EPEL)", "/usr/lib64/", **_GPERFTOOLS, jemalloc="jemalloc libjemalloc.so.1"
)
_EPEL = _unchecked(
    f"{FEDORA} (all are in EPEL)",
    "/usr/lib64/",
    **_GPERFTOOLS,
    jemalloc="jemalloc libjemalloc.so.2",
    mimalloc="mimalloc libmimalloc.so.2",
)
_FEDORA = {name: found._replace(source=FEDORA) for name, found in _EPEL.items()}
_AMAZON = _unchecked(
    "names of Fedora, which it is built from",
    "/usr/lib64/",
    **_GPERFTOOLS,
    jemalloc="jemalloc libjemalloc.so.2",
)
_SUSE = _unchecked(
    "openSUSE, gperftools.spec and jemalloc.spec (on SLES in Package Hub)",
    "/usr/lib64/",
    tcmalloc="libtcmalloc4 libtcmalloc.so.4",
    tcmalloc_minimal="libtcmalloc_minimal4 libtcmalloc_minimal.so.4",
    jemalloc="libjemalloc2 libjemalloc.so.2",
)
_ILLUMOS = _unchecked(
    ILLUMOS,
    "/usr/lib/{bits}/",
    umem="system/library libumem.so.1",
    mtmalloc="system/library libmtmalloc.so.1",
)
_SMARTOS = _unchecked(
    PKGSRC,
    "/opt/local/lib/",
    tcmalloc="gperftools libtcmalloc.so.4",
    tcmalloc_minimal="gperftools libtcmalloc_minimal.so.4",
    jemalloc="jemalloc libjemalloc.so.2",
)

PACKAGES: Dict[Tuple[str, str], Release] = {
    ("debian", "11"): _BULLSEYE,
    ("debian", "12"): _BOOKWORM,
    ("debian", "13"): _TRIXIE,
    ("debian", "14"): _TRIXIE,
    ("debian", "sid"): _TRIXIE,
    ("ubuntu", "20.04"): _ubuntu(_BULLSEYE),
    ("ubuntu", "22.04"): _ubuntu(_BOOKWORM),
    ("ubuntu", "24.04"): _ubuntu(_NOBLE),
    ("ubuntu", "25.10"): _ubuntu(_TRIXIE),
    ("rhel", "7"): _EL7,
    ("rhel", "8"): _EPEL,
    ("rhel", "9"): _EPEL,
    ("rhel", "10"): _EPEL,
    ("fedora", "*"): _FEDORA,
    ("amzn", "2023"): _AMAZON,
    ("suse", "15"): _SUSE,
    ("opensuse-tumbleweed", "*"): _SUSE,
    ("openindiana", "*"): _ILLUMOS,
    ("omnios", "*"): _ILLUMOS,
    ("smartos", "*"): _SMARTOS,
}
"""By ID and VERSION_ID of os-release(5); ``*`` is every release, ``rhel`` and ``suse`` are all that are like them."""

LIKE = {"ol": "rhel"}
"""Systems that do not tell in their os-release(5) what they are like."""


def package_for(allocator: str, distribution: Mapping[str, object]) -> Optional[Package]:
    """Return the package of ``allocator`` for a distribution (``id``, ``version``, ``like``), or None."""
    known = (PACKAGES[key] for key in _keys(distribution) if key in PACKAGES)
    return next(known, {}).get(allocator)


def _keys(distribution: Mapping[str, object]) -> Iterator[Tuple[str, str]]:
    """Yield the keys to look under, the most exact one first."""
    system, like = str(distribution.get("id") or ""), distribution.get("like")
    version = str(distribution.get("version") or "sid")  # Debian's testing and unstable have no number
    families = [str(name) for name in like] if isinstance(like, (list, tuple)) else []
    for name in (system, LIKE.get(system, system), *families):
        yield name, version
        yield name, version.split(".", 1)[0]
    yield system, "*"
