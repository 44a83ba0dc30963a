"""systemd's syntax; each case was compared with what systemd 252 itself makes of it."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import systemd_parse as sp
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("A=b\nC=d", {"A": "b", "C": "d"}),
        ("# A=b\n; C=d\n\n  E = f g  \n", {"E": "f g"}),
        ("A=b # not a comment\n", {"A": "b # not a comment"}),
        ('A="b c" \nB=\'d "e"\'\n', {"A": "b c", "B": 'd "e"'}),
        ("A=\"b\"c'd' e\n", {"A": "bc'd' e"}),
        ('A="b \\"c\\" \\$d \\n"\n', {"A": 'b "c" $d \\n'}),
        ("A=b\\ \\\n c\nD=e\\\\f\n", {"A": "b  c", "D": "e\\f"}),
        ('A="b\nc"\n', {"A": "b\nc"}),
        ("A=\nB", {"A": ""}),
        ("export A=b\n1A=b\nA-B=c\n", {}),
        ("A=b\nA=c\n", {"A": "c"}),
        ("A='b", {"A": "b"}),
        ("A=b\r\nC=d\r\n", {"A": "b", "C": "d"}),
        ("A=$LD_PRELOAD:/x\n", {"A": "$LD_PRELOAD:/x"}),
    ],
)
def test_an_environment_file_reads_as_systemd_reads_it(text, variables):
    assert sp.environment_file(text) == variables


def test_a_comment_that_ends_in_a_backslash_swallows_the_next_line_up_to_systemd_253():
    text = "# old value \\\nLD_PRELOAD=/a.so\nB=c\n"
    assert sp.environment_file(text, comment_continues=True) == {"B": "c"}
    assert sp.environment_file(text, comment_continues=False) == {"LD_PRELOAD": "/a.so", "B": "c"}


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=1000)))
def test_what_we_write_reads_back(value):
    assert sp.environment_file(sp.environment_line("MALLOC_CONF", value)) == {"MALLOC_CONF": value}


@pytest.mark.parametrize(
    ("value", "variables"),
    [
        ("A=b C=d", {"A": "b", "C": "d"}),
        ('"A=b c" \'D=e "f"\' G="h i"', {"A": "b c", "D": 'e "f"', "G": "h i"}),
        ("A=b\\x41\\s\\tc \"D=\\'e\\'\"", {"A": "bA \tc", "D": "'e'"}),
        ("word 1A=b A=c", {"A": "c"}),
        ("A=b C=\\q D=e", {"A": "b"}),
        ('A=b "C=d', {"A": "b"}),
        ("A=b=c", {"A": "b=c"}),
    ],
)
def test_the_words_of_an_environment_line_read_as_systemd_reads_them(value, variables):
    assert sp.assignments(value) == variables


def test_unit_settings_know_sections_comments_and_continued_lines():
    text = """[Unit]
Description=x
[Service]
# comment
Environment=A=b \\
  # a comment in between
  ; another
  C=d
  EnvironmentFile = -/etc/x
Environment=A=b \\ \nUser=mysql
"""
    assert list(sp.unit_settings(text)) == [
        ("Unit", "Description", "x"),
        ("Service", "Environment", "A=b    C=d"),
        ("Service", "EnvironmentFile", "-/etc/x"),
        ("Service", "Environment", "A=b \\"),
        ("Service", "User", "mysql"),
    ]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("/etc/mysql/%i.env", "/etc/mysql/a\\x2db.env"),
        ("%I %p %n %N", "a-b mariadb mariadb@a\\x2db.service mariadb@a\\x2db"),
        ("100%% %Q %t", "100% %Q /run"),
    ],
)
def test_specifiers_of_an_instance_are_expanded_and_unknown_ones_stay(text, expanded):
    assert sp.expand(text, sp.specifiers("mariadb@a\\x2db.service")) == expanded
