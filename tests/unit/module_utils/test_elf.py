from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.elf import Elf, ElfError, gnu_hash, sysv_hash
from elf_builder import Builder

KINDS = [
    pytest.param({"bits": 64, "machine": 62}, "x86_64", id="x86_64"),
    pytest.param({"bits": 32, "machine": 3, "rela": False, "gnu": False}, "i386", id="i386"),
    pytest.param({"bits": 64, "little": False, "machine": 22}, "s390x", id="s390x"),
    pytest.param({"bits": 32, "little": False, "machine": 2}, "sparc", id="sparc"),
    pytest.param({"bits": 64, "machine": 183}, "aarch64", id="aarch64"),
    pytest.param({"bits": 64, "machine": 21}, "ppc64le", id="ppc64le"),
]


@pytest.mark.parametrize(("kind", "machine"), KINDS)
def test_class_machine_names_and_slots_are_read_whatever_the_byte_order(kind, machine):
    built = Builder(
        soname="libx.so.1",
        needed=["libtcmalloc.so.4", "libc.so.6"],
        imports=["free", "my_malloc", "malloc"],
        exports=["calloc", "serve"],
        got=True,
        **kind,
    )
    with Elf(built.build()) as elf:
        size = elf.bits // 8
        assert (elf.bits, elf.machine, elf.soname) == (kind["bits"], machine, "libx.so.1")
        assert elf.needed == ["libtcmalloc.so.4", "libc.so.6"]
        assert elf.slots(("malloc", "free")) == {
            "malloc": [0x5000 + 3 * size, 0x6000 + 3 * size],
            "free": [0x5000 + size, 0x6000 + size],
        }
        assert elf.base == 0x10000
        assert elf.alignment == 0x10000


@pytest.mark.parametrize("gnu", [True, False], ids=["gnu hash", "sysv hash"])
@pytest.mark.parametrize("bits", [32, 64])
def test_only_exported_functions_count_as_defined(gnu, bits):
    with Elf(Builder(bits=bits, gnu=gnu, imports=["free"], exports=["a", "malloc", "b"]).build()) as elf:
        assert elf.defines("malloc")
        assert not elf.defines("free")
        assert not elf.defines("calloc")


def test_a_file_that_exports_nothing_defines_nothing():
    with Elf(Builder(imports=["malloc"]).build()) as elf:
        assert not elf.defines("malloc")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"#!/bin/sh\n", "is not an ELF file"),
        (b"", "is not an ELF file"),
        (b"\x7fELF\x03\x01", "is not an ELF file"),
        (b"\x7fELF\x02\x01" + bytes(10), "damaged"),
        (Builder().build()[:100], "damaged"),
    ],
)
def test_what_is_no_whole_elf_file_is_refused_in_one_sentence(content, words):
    with pytest.raises(ElfError, match=f"^/x .*{words}"):
        Elf(content, "/x")


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ElfError, match="is empty"):
        Elf.open(str(tmp_path / "empty"))


def test_tables_outside_of_the_file_are_damage_and_no_crash():
    content = bytearray(Builder(imports=["malloc"]).build())
    content[64 + 32 : 64 + 40] = (8).to_bytes(8, "little")  # the loaded part ends after 8 bytes
    with Elf(bytes(content)) as elf, pytest.raises(ElfError, match="damaged"):
        elf.slots(("malloc",))


def test_the_hashes_are_those_of_the_linkers():
    assert gnu_hash("printf") == 0x156B2BB8
    assert sysv_hash("printf") == 0x077905A6


def test_the_interpreter_that_runs_this_test_is_read_from_its_file():
    with Elf.open(sys.executable) as elf:
        assert elf.bits == (64 if sys.maxsize > 2**32 else 32)
        assert elf.machine == subprocess.check_output(["uname", "-m"], text=True).strip()
        assert any(name.startswith("libc.so") for name in elf.needed)
