"""Build small ELF files of any class and byte order, with just the tables that the dynamic linker reads."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from ansible_collections.fleet.mysqltune.plugins.module_utils.elf import gnu_hash, sysv_hash

BASE = 0x10000


@dataclass
class Builder:
    """``imports`` get a PLT slot, and with ``got`` one in the other table as well; ``exports`` are defined."""

    bits: int = 64
    little: bool = True
    machine: int = 62
    soname: str | None = None
    needed: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    exports: list[str] = field(default_factory=list)
    got: bool = False
    rela: bool = True
    gnu: bool = True
    align: int = 0x10000

    def build(self) -> bytes:
        self.order = "<" if self.little else ">"
        self.word = "Q" if self.bits == 64 else "I"
        self.strings = b"\0"
        self.body = b""
        self.start = 64 + 2 * 56
        names = ["", *self.imports, *self.exports]
        indexes = [self.string(name) if name else 0 for name in names]
        entries = [(1, self.string(name)) for name in self.needed]
        if self.soname:
            entries.append((14, self.string(self.soname)))
        symbols = b"".join(
            self.symbol(index, number > len(self.imports)) for number, index in enumerate(indexes)
        )
        entries.append((6, self.put(symbols)))
        entries.append(self.hash(names))
        plt = self.relocations(self.imports, 0x5000)
        entries += [(23, self.put(plt)), (2, len(plt)), (20, 7 if self.rela else 17)]
        if self.got:
            other = self.relative() + self.relocations(self.imports, 0x6000)
            tags = (7, 8, 0x6FFFFFF9) if self.rela else (17, 18, 0x6FFFFFFA)
            entries += list(zip(tags, (self.put(other), len(other), 1), strict=True))
        entries.append((5, self.put(self.strings)))
        dynamic = b"".join(self.pack(2 * self.word, *entry) for entry in [*entries, (0, 0)])
        address = self.put(dynamic)
        return self.headers(address, len(dynamic)) + self.body

    def pack(self, form: str, *values: int) -> bytes:
        return struct.pack(self.order + form, *values)

    def string(self, text: str) -> int:
        index = len(self.strings)
        self.strings += text.encode() + b"\0"
        return index

    def put(self, content: bytes) -> int:
        address = BASE + self.start + len(self.body)
        self.body += content
        return address

    def symbol(self, name: int, defined: bool) -> bytes:
        section = 7 if defined else 0
        if self.bits == 64:
            return self.pack("IBBHQQ", name, 0x12, 0, section, 0, 0)
        return self.pack("IIIBBH", name, 0, 0, 0x12, 0, section)

    def hash(self, names: list[str]) -> tuple[int, int]:
        if self.gnu:
            first = 1 + len(self.imports)
            values = [gnu_hash(name) & ~1 for name in names[first:]]
            chain = [value | (number == len(values) - 1) for number, value in enumerate(values)]
            bloom = bytes(self.bits // 8)
            table = self.pack("IIII", 1, first, 1, 6) + bloom + self.pack("I", first if values else 0)
            return 0x6FFFFEF5, self.put(table + b"".join(self.pack("I", value) for value in chain))
        heads, chain = [0, 0], [0] * len(names)
        for number in range(1, len(names)):
            bucket = sysv_hash(names[number]) % 2
            chain[number], heads[bucket] = heads[bucket], number
        table = [2, len(names), *heads, *chain]
        return 4, self.put(b"".join(self.pack("I", value) for value in table))

    def relocations(self, names: list[str], address: int) -> bytes:
        shift = 32 if self.bits == 64 else 8
        size = self.bits // 8
        found = b""
        for number, _name in enumerate(names, 1):
            values = (address + number * size, number << shift | 7)
            found += self.pack(2 * self.word, *values) + (bytes(size) if self.rela else b"")
        return found

    def relative(self) -> bytes:
        return self.pack(2 * self.word, 0x7000, 8) + (bytes(self.bits // 8) if self.rela else b"")

    def headers(self, dynamic: int, size: int) -> bytes:
        total = self.start + len(self.body)
        magic = b"\x7fELF" + bytes([self.bits // 32, 1 if self.little else 2, 1]) + bytes(9)
        load = (BASE, 0, total, self.align)
        dyn = (dynamic, dynamic - BASE, size, 8)
        if self.bits == 64:
            header = self.pack("HHIQQQIHHHHHH", 3, self.machine, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
            programs = [
                self.pack("IIQQQQQQ", kind, 5, at, address, address, length, length, align)
                for kind, (address, at, length, align) in ((1, load), (2, dyn))
            ]
        else:
            header = self.pack("HHIIIIIHHHHHH", 3, self.machine, 1, 0, 52, 0, 0, 52, 32, 2, 0, 0, 0)
            programs = [
                self.pack("IIIIIIII", kind, at, address, address, length, length, 5, align)
                for kind, (address, at, length, align) in ((1, load), (2, dyn))
            ]
        return (magic + header + b"".join(programs)).ljust(self.start, b"\0")
