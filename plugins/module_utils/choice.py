# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the library for one instance among those of the host, or the package that will bring it. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from . import built
from .allocators import classify
from .packages import package_for
from .refusals import Refusal
from .tunables import CAPPED_ARENAS

Unfit = Tuple[str, str]
"""A reason code and a sentence."""


class Choice(NamedTuple):
    """The library for one instance: a path (None: no preload), and the package or the build that will bring it."""

    library: Optional[str]
    package: Optional[str] = None
    build: bool = False


def choose(instance: Mapping[str, Any], observed: Mapping[str, Any], wanted: Mapping[str, Any]) -> Choice:
    """Return the library that ``wanted["name"]`` means for this instance; refuse if there can be none."""
    name = wanted["name"]
    if name == "system" or (name == "glibc" and not instance["allocator"]["linked"]):
        return Choice(None)
    if instance["allocator"]["linked"] and not name.startswith("/"):
        _check_linked(instance, name)
        return Choice(None)
    source = wanted.get("source")
    fitting, unfit = _candidates(instance, observed, name, source)
    if fitting:
        return Choice(_preloaded_as(instance, fitting[0]) or fitting[0]["path"])
    if unfit:
        raise Refusal("failed", *unfit[0])
    if source:
        return Choice(built.library(source["prefix"], name, source["version"], source["number"]), build=True)
    if name.startswith("/"):
        raise Refusal(
            "failed",
            "not_found",
            f"{name} is a directory on this host. Set allocator_name to the library file in it.",
        )
    package = package_for(name, observed["host"]["distribution"])
    if package is None:
        raise Refusal("failed", "not_found", _no_package(name, observed))
    return Choice(package.library.format(machine=instance["machine"], bits=instance["bits"]), package.name)


def environment(wanted: Mapping[str, Any]) -> Dict[str, str]:
    """Return the variables that travel with the choice; for ``glibc`` its arenas are capped unless they say otherwise."""
    given = {str(name): str(value) for name, value in (wanted.get("environment") or {}).items()}
    if wanted["name"] == "system" and given:
        raise Refusal(
            "failed",
            "bad_value",
            "allocator_environment is set, but allocator_name is 'system', which leaves nothing of ours on a host. "
            "Use glibc for the allocator of the C library with variables, or leave allocator_environment out.",
        )
    capped = wanted["name"] == "glibc" and not {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"} & set(given)
    return {**(CAPPED_ARENAS if capped else {}), **given}


def check_carried(method: str, variables: Mapping[str, str]) -> None:
    """Refuse variables that the delivery method cannot hand to the server."""
    if method == "malloc_lib" and variables:
        raise Refusal(
            "failed",
            "bad_value",
            f"allocator_delivery is 'malloc_lib', which carries no variables ({', '.join(variables)}). "
            "Use mysqld_safe, or leave the variables out.",
        )


def _no_package(name: str, observed: Mapping[str, Any]) -> str:
    system = observed["host"]["distribution"]
    return (
        f"no {name} library was found, and no package of {system['id']} {system['version']} is known to have it. "
        "Install one and set allocator_name to its absolute path."
    )


def _check_linked(instance: Mapping[str, Any], name: str) -> None:
    linked = instance["allocator"]["linked"]
    if name not in ("linked", instance["allocator"]["name"]):
        raise Refusal(
            "refused",
            "linked_allocator",
            f"{instance['exe']} is linked with {linked}; a preload of {name} on top would map two allocators. "
            "Set allocator_name: linked to accept what the binary has.",
        )


def _candidates(
    instance: Mapping[str, Any], observed: Mapping[str, Any], name: str, source: Optional[Mapping[str, Any]]
) -> Tuple[List[Mapping[str, Any]], List[Unfit]]:
    """Return the libraries that fit the daemon, packaged ones first, and why the others do not.

    With a ``source`` only what was built from it counts.
    """
    fitting: List[Mapping[str, Any]] = []
    unfit: List[Unfit] = []
    for library in observed["libraries"]:
        if name not in (library["allocator"], library["path"], library["real_path"]):
            continue
        if source and not _built_from(library, source, name):
            continue
        problem = _unfit(instance, library)
        if problem:
            unfit.append(problem)
        else:
            fitting.append(library)
    fitting.sort(key=lambda lib: (not _preloaded_as(instance, lib), not lib["package"], lib["path"]))
    return fitting, unfit


def _built_from(library: Mapping[str, Any], source: Mapping[str, Any], name: str) -> bool:
    place = built.tree(source["prefix"], name, source["version"])
    return bool(library.get("source") == source["sha256"] and library["path"].startswith(f"{place}/"))


def _preloaded_as(instance: Mapping[str, Any], library: Mapping[str, Any]) -> Optional[str]:
    """Return the name under which the next start preloads a library: a link to the same file is no other library."""
    resolved = instance["allocator"].get("resolved") or {}
    for name in instance["allocator"]["configured"]:
        if library["path"] == name or library["real_path"] in (name, resolved.get(name)):
            return str(name)
    return None


def _unfit(instance: Mapping[str, Any], library: Mapping[str, Any]) -> Optional[Unfit]:
    path, daemon = library["path"], instance["exe"]
    if not library["usable"]:
        return library["reason"], library.get("message") or f"{path} cannot be used: {library['reason']}."
    if library["bits"] != instance["bits"]:
        return "elf_class", (
            f"{path} is a {library['bits']}-bit library, but {daemon} is a {instance['bits']}-bit program. "
            f"Install the {instance['bits']}-bit library."
        )
    if library["machine"] != instance["machine"]:
        return "elf_machine", (
            f"{path} is built for {library['machine']}, but {daemon} for {instance['machine']}. "
            f"Install the library for {instance['machine']}."
        )
    return None


def check_second_allocator(instance: Mapping[str, Any], library: Optional[str]) -> None:
    """Refuse a preload that stands in a file of somebody else; a hand-edited mysqld_safe is adopted instead.

    A ``malloc-lib`` of somebody else's cannot be: the script adds it to whatever else it preloads.
    """
    for one in instance["allocator"].get("malloc_libs") or []:
        if not one["ours"] and one["library"] != library:
            raise Refusal(
                "failed",
                "second_allocator",
                f"{instance['name']}: {one['file']} sets malloc-lib={one['library']} for mysqld_safe and is not ours. "
                "Remove that setting first; two allocators in one process are worse than either.",
            )
    foreign = [path for path in preloaded_allocators(instance) if path != library]
    if foreign and instance["launcher"]["kind"] == "systemd" and not instance["allocator"]["managed"]:
        raise Refusal(
            "failed",
            "second_allocator",
            f"{instance['name']} already preloads {', '.join(foreign)} from a file that is not ours. "
            "Remove that setting first; two allocators in one process are worse than either.",
        )


def preloaded_allocators(instance: Mapping[str, Any]) -> List[str]:
    """Return the allocators among what the next start preloads."""
    return [path for path in instance["allocator"]["configured"] if classify(path)]
