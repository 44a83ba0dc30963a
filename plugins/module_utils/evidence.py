# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running process proves about its allocator, and how much that is worth.

``collect`` reads the facts of one process, ``judge`` (pure) turns them into a level and a reason code.
"""

from __future__ import annotations

import os
import re
import struct
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .allocators import check_library, classify
from .binding import FUNCTIONS, resolve
from .elf import Elf, ElfError
from .preload_list import split_preload
from .procmaps import DELETED, Maps, read
from .tunables import tunables

INTENDED, DELIVERED, MAPPED, EFFECTIVE = LEVELS = ("intended", "delivered", "mapped", "effective")

OWN_MALLOC = "its own malloc"
_LIBC = re.compile(r"libc(-[0-9.]+)?\.so(\.[0-9]+)?|ld-musl-.*|libc\.musl-.*")
_AT_SECURE = 23

Judgement = Tuple[str, Optional[str]]


def collect(pid: int, proc: str = "/proc") -> Dict[str, Any]:
    """Return the facts of process ``pid``; ``OSError`` if it is gone or not ours to read, or ``ElfError``.

    ``exe``, ``bits``, ``machine``, ``secure_exec`` (AT_SECURE); ``environ`` (its LD_PRELOAD); ``variables``
    (the allocators' variables that it has); ``mapped``
    (allocator libraries and preloaded files in its maps, real paths); ``deleted`` (those of them that were
    replaced); ``linked`` (the soname or ``its own malloc``); ``bound`` (``malloc`` and ``free``, each a real
    path or None); ``resolved`` (other names of the mapped files); ``problems`` (preloaded file to the reason
    why it is not mapped); ``error`` (why the memory could not be read).
    """
    exe = readlink(pid, "exe", proc)
    maps = read(pid, proc)
    binding = resolve(pid, exe, maps, proc)
    program = binding.program
    variables = environment(pid, proc)
    environ = variables.get("LD_PRELOAD", "")
    preloaded = {name: _real(name, maps) for name in split_preload(environ)}
    mapped = _mapped(maps, [*preloaded.values(), *binding.bound.values()], exe)
    return {
        "exe": exe,
        "bits": program.bits,
        "machine": program.machine,
        "secure_exec": _secure(pid, program.bits, proc),
        "environ": environ,
        "variables": tunables(variables),
        "mapped": mapped,
        "deleted": sorted({f.path for f in maps.files() if f.deleted and f.path in mapped}),
        "linked": _linked(program.defines, program.needed),
        "bound": binding.bound,
        "resolved": {**_aliases(mapped), **preloaded},
        "problems": _problems(preloaded, mapped, program.bits, program.machine),
        "error": binding.error,
    }


def readlink(pid: int, name: str, proc: str = "/proc") -> str:
    """Return where a link of the process leads, without the mark that the file was replaced since."""
    target = os.readlink(os.path.join(proc, str(pid), name))
    return target[: -len(DELETED)] if target.endswith(DELETED) else target


def environment(pid: int, proc: str = "/proc") -> Dict[str, str]:
    """Return the environment that the process was started with. It may hold secrets: never show it whole."""
    with open(os.path.join(proc, str(pid), "environ"), "rb") as stream:
        words = stream.read().decode("utf-8", "replace").split("\0")
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def _real(name: str, maps: Maps) -> str:
    """Return the real path of an entry of LD_PRELOAD; a bare soname is looked for beside the mapped files."""
    if "/" in name:
        return os.path.realpath(name)
    for mapping in maps.files():
        beside = os.path.join(os.path.dirname(mapping.path), name)
        if os.path.realpath(beside) == mapping.path:
            return mapping.path
    return name


def _mapped(maps: Maps, named: List[Optional[str]], exe: str) -> List[str]:
    return sorted(
        {
            mapping.path
            for mapping in maps.files()
            if classify(mapping.path)
            or (mapping.path in named and mapping.path != exe and not is_libc(mapping.path))
        }
    )


def _aliases(mapped: List[str]) -> Dict[str, str]:
    """Map the link that carries a library's soname to the file, if it stands beside the file."""
    found = {}
    for path in mapped:
        link = os.path.join(os.path.dirname(path), soname_of(path) or os.path.basename(path))
        if os.path.realpath(link) == path:
            found[link] = path
    return found


def soname_of(path: str) -> Optional[str]:
    """Return the soname of a library, None if it has none or cannot be read."""
    try:
        with Elf.open(path) as elf:
            return elf.soname
    except (OSError, ElfError):
        return None


def _problems(preloaded: Mapping[str, str], mapped: List[str], bits: int, machine: str) -> Dict[str, str]:
    found = {}
    for name, real in preloaded.items():
        problem = None if real in mapped else check_library(real, bits, machine)
        if problem:
            found[name] = problem[0]
    return found


def _linked(defines: bool, needed: List[str]) -> Optional[str]:
    if defines:
        return OWN_MALLOC
    return next((soname for soname in needed if classify(soname)), None)


def _secure(pid: int, bits: int, proc: str) -> bool:
    """Read AT_SECURE: ld.so(8) drops the preloads of a process that gained rights at its start."""
    with open(os.path.join(proc, str(pid), "auxv"), "rb") as stream:
        content = stream.read()
    pair = struct.Struct("@QQ" if bits == 64 else "@II")
    entries = pair.iter_unpack(content[: len(content) // pair.size * pair.size])
    return any(key == _AT_SECURE and value for key, value in entries)


def is_libc(path: Optional[str]) -> bool:
    """Tell whether a path is the C library itself."""
    return bool(_LIBC.fullmatch(os.path.basename(path or "")))


def allocator_name(facts: Mapping[str, Any]) -> Optional[str]:
    """Return the allocator that has ``malloc``: a name, ``system``, ``linked``, a path, None if unknown."""
    path = facts["bound"].get("malloc")
    if path is None:
        return None
    if path == facts.get("exe"):
        return "linked"
    return "system" if is_libc(path) else classify(path) or classify(soname_of(path) or "") or str(path)


def judge(facts: Mapping[str, Any], library: Optional[str]) -> Judgement:
    """Return level and reason of ``library`` (None: the system's allocator, or the one that is linked in).

    ``facts`` are those of ``collect``. Where it also has ``configured`` (what the next start would preload),
    ``overridden_by`` or ``confinement``, the reason says more.
    """
    return _judge_system(facts) if library is None else _judge_library(facts, library)


def _judge_system(facts: Mapping[str, Any]) -> Judgement:
    owners = [facts["bound"].get(name) for name in FUNCTIONS]
    if all(is_libc(owner) for owner in owners):
        return EFFECTIVE, None
    if all(_is_linked(facts, owner) for owner in owners):
        return EFFECTIVE, "linked_allocator"
    if None in owners:
        return INTENDED, "not_bound"
    stale = _preloads(facts) and not facts.get("configured")
    return INTENDED, "stale_process" if stale else "second_allocator"


def _is_linked(facts: Mapping[str, Any], owner: Optional[str]) -> bool:
    if owner is None or not facts.get("linked") or owner in _preloads(facts):
        return False
    return owner == facts.get("exe") or facts["linked"] in _names(facts, owner)


def _names(facts: Mapping[str, Any], path: str) -> List[str]:
    """Return the base names under which a mapped file is known."""
    links = [name for name, real in (facts.get("resolved") or {}).items() if real == path]
    return [os.path.basename(name) for name in [path, *links]]


def _preloads(facts: Mapping[str, Any]) -> List[str]:
    resolved = facts.get("resolved") or {}
    return [resolved.get(name, name) for name in split_preload(facts.get("environ") or "")]


def _judge_library(facts: Mapping[str, Any], library: str) -> Judgement:
    real = (facts.get("resolved") or {}).get(library, library)
    owners = [facts["bound"].get(name) for name in FUNCTIONS]
    if real not in _preloads(facts) and not all(owner == real for owner in owners):
        return INTENDED, _undelivered(facts, library)
    if real in facts["deleted"]:
        return DELIVERED, "deleted"
    if real not in facts["mapped"]:
        return DELIVERED, _unmapped(facts, library)
    if any(owner != real for owner in owners):
        return MAPPED, _unbound(facts, owners)
    if _others(facts, real):
        return MAPPED, "second_allocator"
    return EFFECTIVE, None


def _undelivered(facts: Mapping[str, Any], library: str) -> Optional[str]:
    if library in (facts.get("configured") or []):
        return "stale_process"
    return "overridden" if facts.get("overridden_by") else None


def _unmapped(facts: Mapping[str, Any], library: str) -> str:
    """Return why ld.so left a preload out, as far as it can be seen from outside."""
    if facts["secure_exec"]:
        return "secure_exec"
    problem = (facts.get("problems") or {}).get(library)
    if problem and problem != "unsafe_path":
        return str(problem)
    confinement = str(facts.get("confinement") or "unconfined")
    if "unconfined" not in confinement:
        return "selinux" if ":" in confinement else "apparmor"
    return "stale_process"


def _unbound(facts: Mapping[str, Any], owners: List[Optional[str]]) -> str:
    if None in owners:
        return "not_bound"
    if facts.get("exe") in owners or any(_is_linked(facts, owner) for owner in owners):
        return "linked_allocator"
    return "second_allocator"


def _others(facts: Mapping[str, Any], real: str) -> bool:
    """Tell whether another allocator was preloaded or linked beside ``real``."""
    others = [path for path in facts["mapped"] if path != real and classify(path)]
    return any(path in _preloads(facts) or _is_linked(facts, path) for path in others)
