from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.fleet.mysqltune.plugins.module_utils.procmaps import Mapping, parse, read

CAPTURED = Path(__file__).parents[2] / "fixtures/maps/mariadbd-10.11-debian-12-jemalloc-deleted.txt"
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


def test_a_replaced_library_is_marked_and_its_path_is_clean():
    files = {mapping.path: mapping.deleted for mapping in parse(CAPTURED.read_text()).files()}
    assert files[JEMALLOC] is True
    assert files["/usr/sbin/mariadbd"] is False
    assert "[heap]" not in files


def test_an_address_belongs_to_the_mapping_around_it():
    maps = parse(CAPTURED.read_text())
    text = next(m for m in maps.mappings if m.path == JEMALLOC and m.offset)
    assert maps.at(text.start) == maps.at(text.end - 1) == text
    assert maps.at(0) is None
    assert maps.at(2**64 - 1) is None


def test_the_start_of_a_file_is_where_its_first_byte_is():
    maps = parse(
        "7000-8000 r-xp 00002000 00:92 9 /usr/sbin/mysqld\n5000-6000 r--p 00000000 00:92 9 /usr/sbin/mysqld\n"
    )
    assert maps.start_of("/usr/sbin/mysqld") == 0x5000
    assert maps.start_of("/usr/sbin/other") is None


def test_spaces_and_escaped_newlines_in_a_path_survive():
    line = "5000-6000 r--p 00000000 00:92 9                    /opt/my lib\\012.so (deleted)\n"
    assert parse(line).mappings == [Mapping(0x5000, 0x6000, 0, "/opt/my lib\n.so", True)]


def test_lines_that_are_no_mappings_are_left_out():
    assert parse("\nnonsense\n").mappings == []


def test_our_own_maps_have_our_program():
    assert os.path.realpath("/proc/self/exe") in [mapping.path for mapping in read(os.getpid()).files()]
