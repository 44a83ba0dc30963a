# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what is needed of an ELF file: class, machine, soname, needed libraries, functions in and out.

Source of the layouts: elf(5) and the System V ABI. The file is mapped, not read: a server of 25 MB costs
a few milliseconds.
"""

from __future__ import annotations

import mmap
import struct
from types import TracebackType
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Type, Union

Buffer = Union[bytes, mmap.mmap]

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ = 1, 2, 4, 5, 6, 7, 8
DT_SONAME, DT_REL, DT_RELSZ, DT_PLTREL, DT_JMPREL = 14, 17, 18, 20, 23
DT_GNU_HASH, DT_RELACOUNT, DT_RELCOUNT = 0x6FFFFEF5, 0x6FFFFFF9, 0x6FFFFFFA
MASK32 = 0xFFFFFFFF

MACHINES = {
    2: "sparc",
    3: "i386",
    20: "ppc",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    43: "sparcv9",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}


class ElfError(Exception):
    """Why a file cannot be used as an ELF file."""


class Segment(NamedTuple):
    """One program header."""

    kind: int
    offset: int
    address: int
    filesize: int
    align: int


class _Layout(NamedTuple):
    """struct formats of one class, without the byte order."""

    header: str
    program: str
    symbol: str
    word: str
    rel: str
    rela: str
    symbol_shift: int


_LAYOUTS = {
    32: _Layout("HHIIIIIHHH", "IIIIIIII", "IIIBBH", "I", "II", "IIi", 8),
    64: _Layout("HHIQQQIHHH", "IIQQQQQQ", "IBBHQQ", "Q", "QQ", "QQq", 32),
}


class Elf:
    """An open ELF file, for a ``with`` statement. ``bits`` is 32 or 64, ``machine`` is as in ``uname -m``."""

    def __init__(self, data: Buffer, path: str = "") -> None:
        """Raise ``ElfError`` if ``data`` is no ELF file."""
        self.path = path
        self._data = data
        try:
            self._parse()
        except (struct.error, IndexError) as error:
            raise ElfError(f"{path} is a damaged ELF file: {error}") from error

    @classmethod
    def open(cls, path: str) -> Elf:
        """Map the file at ``path``; ``OSError`` or ``ElfError``."""
        with open(path, "rb") as stream:
            try:
                data = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)
            except ValueError as error:
                raise ElfError(f"{path} is empty") from error
        return cls(data, path)

    def __enter__(self) -> Elf:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if isinstance(self._data, mmap.mmap):
            self._data.close()

    def _parse(self) -> None:
        magic = self._data[:16]
        if magic[:4] != b"\x7fELF" or magic[4] not in (1, 2) or magic[5] not in (1, 2):
            raise ElfError(f"{self.path} is not an ELF file")
        self.bits = 32 * magic[4]
        self.little = magic[5] == 1
        self._order = "<" if self.little else ">"
        self._layout = _LAYOUTS[self.bits]
        header = self._unpack(self._layout.header, 16)
        self.machine = _machine(header[1], self.little)
        self.segments = list(self._programs(offset=header[4], size=header[8], count=header[9]))
        self._dynamic = self._entries()

    def _unpack(self, form: str, offset: int) -> Tuple[int, ...]:
        return struct.unpack_from(self._order + form, self._data, offset)

    def _programs(self, offset: int, size: int, count: int) -> Iterator[Segment]:
        for index in range(count):
            field = self._unpack(self._layout.program, offset + index * size)
            if self.bits == 64:
                yield Segment(field[0], field[2], field[3], field[5], field[7])
            else:
                yield Segment(field[0], field[1], field[2], field[4], field[7])

    def _entries(self) -> Dict[int, List[int]]:
        found: Dict[int, List[int]] = {}
        for segment in self.segments:
            if segment.kind != PT_DYNAMIC:
                continue
            block = self._data[segment.offset : segment.offset + segment.filesize]
            pair = struct.Struct(self._order + 2 * self._layout.word)
            for tag, value in pair.iter_unpack(block[: len(block) // pair.size * pair.size]):
                if tag == 0:
                    break
                found.setdefault(tag, []).append(value)
        return found

    def _tag(self, tag: int) -> int:
        return self._dynamic.get(tag, [0])[0]

    def _offset(self, address: int) -> int:
        """Return where in the file an address of the dynamic section is."""
        for segment in self.segments:
            if segment.kind == PT_LOAD and segment.address <= address < segment.address + segment.filesize:
                return address - segment.address + segment.offset
        raise ElfError(f"{self.path} is a damaged ELF file: nothing is at address {address:#x}")

    def _string(self, index: int) -> str:
        start = self._offset(self._tag(DT_STRTAB)) + index
        end = self._data.find(b"\0", start)
        return self._data[start:end].decode("utf-8", "replace")

    @property
    def dynamic(self) -> bool:
        """Whether the file takes part in dynamic linking at all."""
        return bool(self._dynamic)

    @property
    def soname(self) -> Optional[str]:
        return self._string(self._tag(DT_SONAME)) if DT_SONAME in self._dynamic else None

    @property
    def needed(self) -> List[str]:
        """The sonames that the file itself is linked with."""
        return [self._string(index) for index in self._dynamic.get(DT_NEEDED, [])]

    @property
    def base(self) -> int:
        """The address that the first byte of the file has before the load bias is added."""
        first = min((s for s in self.segments if s.kind == PT_LOAD), key=lambda s: s.address, default=None)
        return first.address - first.offset if first else 0

    @property
    def alignment(self) -> int:
        """The smallest alignment of what has to be mapped, in bytes; no larger page size will do."""
        return min((s.align for s in self.segments if s.kind == PT_LOAD), default=0)

    def slots(self, names: Tuple[str, ...]) -> Dict[str, List[int]]:
        """Return the addresses (without load bias) of the words that the linker fills for these functions."""
        found: Dict[str, List[int]] = {name: [] for name in names}
        known: Dict[int, Optional[str]] = {0: None}
        wanted = {name.encode() + b"\0": name for name in names}
        for address, symbol in self._relocations():
            if symbol not in known:
                known[symbol] = self._match(symbol, wanted)
            name = known[symbol]
            if name is not None:
                found[name].append(address)
        return found

    def _match(self, symbol: int, wanted: Dict[bytes, str]) -> Optional[str]:
        index = self._symbol(symbol)[0]
        start = self._offset(self._tag(DT_STRTAB)) + index
        for text, name in wanted.items():
            if self._data[start : start + len(text)] == text:
                return name
        return None

    def _relocations(self) -> Iterator[Tuple[int, int]]:
        """Yield address and symbol number of each relocation, the PLT's first, relative ones left out."""
        plt_is_rela = self._tag(DT_PLTREL) == DT_RELA
        yield from self._table(DT_JMPREL, DT_PLTRELSZ, plt_is_rela, 0)
        yield from self._table(DT_RELA, DT_RELASZ, True, self._tag(DT_RELACOUNT))
        yield from self._table(DT_REL, DT_RELSZ, False, self._tag(DT_RELCOUNT))

    def _table(self, tag: int, size_tag: int, rela: bool, skip: int) -> Iterator[Tuple[int, int]]:
        if tag not in self._dynamic:
            return
        entry = struct.Struct(self._order + (self._layout.rela if rela else self._layout.rel))
        start = self._offset(self._tag(tag)) + skip * entry.size
        size = self._tag(size_tag) - skip * entry.size
        block = self._data[start : start + max(size, 0)]
        for fields in entry.iter_unpack(block[: len(block) // entry.size * entry.size]):
            symbol = fields[1] >> self._layout.symbol_shift
            if symbol:
                yield fields[0], symbol

    def _symbol(self, number: int) -> Tuple[int, int]:
        """Return the name's index and the section number; section 0 means that it is imported."""
        table = self._offset(self._tag(DT_SYMTAB))
        size = struct.calcsize("=" + self._layout.symbol)
        fields = self._unpack(self._layout.symbol, table + number * size)
        return fields[0], fields[3] if self.bits == 64 else fields[5]

    def defines(self, name: str) -> bool:
        """Tell whether the file exports ``name`` itself."""
        if DT_GNU_HASH in self._dynamic:
            candidates = self._gnu_chain(name)
        elif DT_HASH in self._dynamic:
            candidates = self._sysv_chain(name)
        else:
            return False
        wanted = {name.encode() + b"\0": name}
        return any(self._symbol(number)[1] and self._match(number, wanted) for number in candidates)

    def _gnu_chain(self, name: str) -> Iterator[int]:
        start = self._offset(self._tag(DT_GNU_HASH))
        count, first, bloom, _shift = self._unpack("IIII", start)
        buckets = start + 16 + bloom * self.bits // 8
        value = gnu_hash(name)
        number = self._unpack("I", buckets + 4 * (value % count))[0] if count else 0
        chain = buckets + 4 * count
        while number >= first and number:
            found = self._unpack("I", chain + 4 * (number - first))[0]
            if found | 1 == value | 1:
                yield number
            if found & 1:
                return
            number += 1

    def _sysv_chain(self, name: str) -> Iterator[int]:
        start = self._offset(self._tag(DT_HASH))
        form = "Q" if self.machine == "s390x" and self.bits == 64 else "I"
        size = struct.calcsize("=" + form)
        count = self._unpack(form, start)[0]
        number = self._unpack(form, start + size * (2 + sysv_hash(name) % count))[0] if count else 0
        seen: Set[int] = set()
        while number and number not in seen:
            seen.add(number)
            yield number
            number = self._unpack(form, start + size * (2 + count + number))[0]


def _machine(code: int, little: bool) -> str:
    name = MACHINES.get(code, f"machine-{code}")
    return name + "le" if name == "ppc64" and little else name


def gnu_hash(name: str) -> int:
    """Return the hash of DT_GNU_HASH for a symbol's name."""
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & MASK32
    return value


def sysv_hash(name: str) -> int:
    """Return the hash of DT_HASH for a symbol's name."""
    value = 0
    for byte in name.encode():
        value = ((value << 4) + byte) & MASK32
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value
