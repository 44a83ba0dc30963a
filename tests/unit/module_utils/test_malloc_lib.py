"""What a script would do with a malloc-lib: predicted from its text, and tried on a stage."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import malloc_lib
from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_lib import accepts, found, rules
from ansible_collections.fleet.mysqltune.plugins.module_utils.mysqld_safe import ScriptError, without_block
from check_scripts import WORDS, predictions
from safe_scripts import fixture_text
from stage import Stage

DEBIAN = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
LOCAL = "/usr/local/lib/libjemalloc.so.2"
SHAPES = ("any", "guarded", "four", "below")
every_shape = pytest.mark.parametrize("shape", SHAPES)


def script(shape: str) -> str:
    return fixture_text(f"malloc-lib-{shape}.sh")


@every_shape
def test_the_script_does_what_is_foretold(shape: str, tmp_path: Path) -> None:
    tried = list(predictions(Stage(tmp_path / "stage"), script(shape), ["dash"]))
    wrong = [one for one in tried if one[0] not in WORDS and (one[2] is None) != one[3]]
    assert wrong == []
    assert {taken for _library, _channel, _foretold, taken in tried} == {True, False}


@pytest.mark.parametrize(
    ("shape", "library", "words"),
    [
        ("any", LOCAL, None),
        ("four", DEBIAN, None),
        ("four", LOCAL, "only from /usr/lib, /usr/lib64, /usr/lib/i386-linux-gnu, /usr/lib/x86_64-linux-gnu"),
        ("four", "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2", "only from /usr/lib, "),
        ("below", "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2", None),
        ("below", LOCAL, "only files below /usr/lib64/, /usr/lib/, /srv/mysql/lib/"),
        ("below", "/srv/mysql/lib/libjemalloc.so.1", None),
        ("any", "tcmalloc", "Name the file"),
    ],
)
def test_a_refusal_names_what_the_script_takes(shape: str, library: str, words: str | None) -> None:
    problem = accepts(script(shape), library, basedir="/srv/mysql")
    assert (problem is None) == (words is None)
    assert problem is None or (problem[0] == "whitelist" and words in problem[1])


def test_the_file_behind_a_link_counts_where_the_script_follows_it() -> None:
    links = {"/usr/lib/libjemalloc.so": LOCAL}
    assert accepts(script("below"), "/usr/lib/libjemalloc.so", lambda path: links.get(path, path))
    assert not accepts(script("four"), "/usr/lib/libjemalloc.so", lambda path: links.get(path, path))


def test_a_my_cnf_in_the_data_directory_counts_only_for_the_scripts_that_look_for_it() -> None:
    assert "Move that file" in (accepts(script("guarded"), DEBIAN, my_cnf_in_datadir=True) or ("", ""))[1]
    assert accepts(script("guarded"), DEBIAN) is None
    assert accepts(script("any"), DEBIAN, my_cnf_in_datadir=True) is None


@pytest.mark.parametrize("name", ["family-a.sh", "family-b.sh", "family-c-early.sh", "wrapper.sh"])
def test_a_script_without_the_option_takes_nothing(name: str) -> None:
    assert rules(fixture_text(name)) is None
    assert "does not know malloc-lib" in (accepts(fixture_text(name), DEBIAN) or ("", ""))[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('  [ -z "$malloc_lib" ] && return', '  grep -q "$malloc_lib" /etc/allowed || exit 1'),
        ('  [ -z "$malloc_lib" ] && return', '  if test -O "$malloc_lib"; then exit 1; fi'),
        ("    /*)\n      if [ ! -r", "    /usr/lib/*)\n      if [ ! -r"),
        ('set_malloc_lib "$val" ;;', 'vetted "$val"; set_malloc_lib "$val" ;;'),
        ("NOHUP_NICENESS=nohup", "set_malloc_lib jemalloc\nNOHUP_NICENESS=nohup"),
    ],
)
def test_a_script_that_decides_in_another_way_takes_nothing(old: str, new: str) -> None:
    text = script("any")
    assert old in text
    assert "not understood" in (accepts(text.replace(old, new, 1), DEBIAN) or ("", ""))[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mysqld_safe safe_mysqld`", "safe_mysqld`"),
        ('cmd="`mysqld_ld_preload_text`$NOHUP_NICENESS"', 'cmd="$NOHUP_NICENESS"'),
        ("      --malloc-lib=*)", "      #--malloc-lib=*)"),
    ],
)
def test_a_script_that_never_uses_the_option_does_not_know_it(old: str, new: str) -> None:
    assert old in script("any")
    assert rules(script("any").replace(old, new)) is None


@pytest.mark.parametrize(
    "text", ["", "[mysqld]\nport=1\n", "[mysqld]\nport=1", "[mysqld]\r\nport=1\r\n", "\n"]
)
def test_our_block_goes_in_once_and_the_exact_bytes_come_back(text: str) -> None:
    once = malloc_lib.with_block(text, LOCAL)
    other = malloc_lib.with_block(once, DEBIAN)
    assert malloc_lib.with_block(other, DEBIAN) == other != once
    assert other.splitlines()[-3:-1] == ["[mysqld_safe]", f"malloc-lib={DEBIAN}"]
    assert without_block(other) == text


def test_ours_and_others_are_told_apart() -> None:
    files = {
        "/etc/my.cnf": f"[mysqld]\nmalloc-lib=/no\n[safe_mysqld]\nmalloc_lib = '{LOCAL}'\nmalloc-lib=\n",
        "/etc/zz.cnf": malloc_lib.with_block("", DEBIAN),
    }
    seen = malloc_lib.configured_preload(script("any"), files)
    assert (seen["paths"], seen["managed"], seen["adopted"]) == ([DEBIAN, LOCAL], True, True)
    assert [(one.file, one.library, one.ours) for one in found(script("any"), files)] == [
        ("/etc/my.cnf", LOCAL, False),
        ("/etc/zz.cnf", DEBIAN, True),
    ]


def test_a_script_that_does_not_know_the_option_preloads_nothing_and_our_block_is_still_seen() -> None:
    seen = malloc_lib.configured_preload(
        fixture_text("family-a.sh"), {"/etc/my.cnf": malloc_lib.with_block("", DEBIAN)}
    )
    assert (seen["paths"], seen["malloc_libs"], seen["managed"]) == ([], [], True)


def test_a_damaged_block_is_seen_as_somebody_elses_and_never_taken_out() -> None:
    damaged = malloc_lib.with_block("", DEBIAN).replace("# END", "#")
    assert found(script("any"), {"/etc/my.cnf": damaged})[0].ours is False
    with pytest.raises(ScriptError, match="damaged"):
        malloc_lib.with_block(damaged, DEBIAN)
