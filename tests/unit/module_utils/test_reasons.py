# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of reason codes has each code that the sources can give, and none that they cannot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.reasons import REASONS, advice

SOURCES = sorted(Path(__file__).parents[3].glob("plugins/module_utils/*.py"))
TEXT = {path.name: path.read_text() for path in SOURCES if path.name != "reasons.py"}
GIVEN = (
    r'Refusal\(\s*"\w+",\s*"(\w+)"',
    r'Failure\(\s*"(\w+)"',
    r'return (?:INTENDED|DELIVERED|MAPPED|EFFECTIVE), "(\w+)"',
)
OTHERS = {
    "allocators.py": r'return "(\w+)", ',
    "probe.py": r'result\.reason = "(\w+)"',
    "evidence.py": r'return "(\w+)"$',
}


def given() -> set[str]:
    found = {code for text in TEXT.values() for pattern in GIVEN for code in re.findall(pattern, text)}
    return found | {
        code for name, form in OTHERS.items() for code in re.findall(form, TEXT[name], re.MULTILINE)
    }


def test_each_code_that_a_source_gives_is_explained() -> None:
    codes = given() - {"intended", "linked"}  # a level, and an allocator
    assert len(codes) > 20
    assert sorted(codes - {*REASONS}) == []


@pytest.mark.parametrize("code", REASONS)
def test_each_code_of_the_table_is_given_by_a_source(code: str) -> None:
    assert re.search(rf"\b{code}\b", "\n".join(TEXT.values()))


def test_advice_is_a_sentence_and_an_unknown_word_has_none() -> None:
    assert advice("elf_class").endswith(".")
    assert advice("something") == ""
