# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out which file a running process's ``malloc`` and ``free`` really come from.

A mapped library is no proof: the dynamic linker wrote the address that it chose into the relocation slots
of the program. These words are read through /proc/PID/mem; the maps tell which file each address lies in.
"""

from __future__ import annotations

import os
import struct
from typing import BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .elf import Elf, ElfError
from .procmaps import Maps

FUNCTIONS = ("malloc", "free")
Bound = Dict[str, Optional[str]]


class Program(NamedTuple):
    """What is asked about the program's own file."""

    bits: int
    machine: str
    needed: List[str]
    defines: bool
    dynamic: bool


class Binding(NamedTuple):
    """``bound``: function to file, None for a slot not filled yet. ``error``: why memory was not read."""

    bound: Bound
    program: Program
    error: Optional[str]


def resolve(pid: int, exe: str, maps: Maps, proc: str = "/proc") -> Binding:
    """Return the binding of process ``pid``, whose program is ``exe``; ``OSError`` or ``ElfError``.

    The program's file is opened through /proc/PID/exe, which works when it has been replaced since.
    """
    with Elf.open(os.path.join(proc, str(pid), "exe")) as elf:
        program = Program(elf.bits, elf.machine, elf.needed, elf.defines("malloc"), elf.dynamic)
        slots = elf.slots(FUNCTIONS) if elf.dynamic else {}
        base = elf.base
        little = elf.little
    if program.defines:
        return Binding(dict.fromkeys(FUNCTIONS, exe), program, None)
    word = struct.Struct(("<" if little else ">") + ("Q" if program.bits == 64 else "I"))
    try:
        with open(os.path.join(proc, str(pid), "mem"), "rb") as memory:
            bound = _bind(memory, word, maps, exe, slots, base)
    except OSError as error:
        return Binding(dict.fromkeys(FUNCTIONS), program, f"/proc/{pid}/mem: {error.strerror}")
    return Binding(bound, program, None)


def _bind(
    memory: BinaryIO, word: struct.Struct, maps: Maps, exe: str, slots: Dict[str, List[int]], base: int
) -> Bound:
    bound: Bound = {}
    start = maps.start_of(exe)
    for name in FUNCTIONS:
        imported = slots.get(name) or []
        bias = None if start is None else start - base
        bound[name] = _owner(memory, word, maps, imported, bias, {exe})
        if imported and bound[name] is None:
            bound[name] = _bound_elsewhere(memory, word, maps, name, exe)
    return bound


def _owner(
    memory: BinaryIO, word: struct.Struct, maps: Maps, slots: List[int], bias: Optional[int], own: Set[str]
) -> Optional[str]:
    """Return the file that a filled slot points into; a slot that still points into ``own`` is not filled."""
    for slot in slots if bias is not None else []:
        memory.seek(slot + (bias or 0))
        content = memory.read(word.size)
        if len(content) < word.size:
            continue
        mapping = maps.at(word.unpack(content)[0])
        if mapping and mapping.path.startswith("/") and mapping.path not in own:
            return mapping.path
    return None


def _bound_elsewhere(memory: BinaryIO, word: struct.Struct, maps: Maps, name: str, exe: str) -> Optional[str]:
    """Return what another library got for ``name``: all of them search the same files in the same order."""
    for path, slots, bias in _libraries(maps, name, exe):
        owner = _owner(memory, word, maps, slots, bias, {exe, path})
        if owner:
            return owner
    return None


def _libraries(maps: Maps, name: str, exe: str) -> Iterator[Tuple[str, List[int], int]]:
    """Yield path, slots and load bias of the mapped libraries that import ``name``."""
    for mapping in maps.files():
        start = maps.start_of(mapping.path)
        if mapping.path == exe or mapping.deleted or start is None:
            continue
        try:
            with Elf.open(mapping.path) as elf:
                slots = elf.slots((name,))[name] if elf.dynamic and not elf.defines(name) else []
                yield mapping.path, slots, start - elf.base
        except (OSError, ElfError):
            continue
