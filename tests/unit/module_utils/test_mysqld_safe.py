"""What is read from a mysqld_safe script and what is written into it."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import mysqld_safe as safe
from hypothesis import given
from hypothesis import strategies as st
from safe_scripts import SCRIPTS, fixture_text

TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"
JEMALLOC = "/usr/local/lib/libjemalloc.so.2"
every_script = pytest.mark.parametrize("script", SCRIPTS)
libraries = st.from_regex(r"/[a-z0-9._+@,=~%/-]{1,30}", fullmatch=True)
plain_lines = st.text(
    alphabet=st.characters(blacklist_characters="\r", max_codepoint=255), max_size=60
).filter(
    lambda line: not any(word in line for word in ("LD_PRELOAD", "ledir", "while true", "mysqld_ld_preload"))
)


def what(text):
    """Return paths, managed and adopted."""
    found = safe.configured_preload(text)
    return found["paths"], found["managed"], found["adopted"]


def test_each_family_is_recognised_by_its_way_to_start_the_server():
    families = {script: safe.inspect(fixture_text(script)).family for script in SCRIPTS}
    assert families == {
        "family-a.sh": "A",
        "family-b.sh": "B",
        "family-c-early.sh": "C",
        "family-c-mariadb.sh": "C",
        "family-c-mysql8.sh": "C",
    }


@every_script
def test_a_pristine_script_has_neither_block_nor_hand_edits(script):
    found = safe.inspect(fixture_text(script))
    assert (found.block, found.hand_edits) == (None, ())
    assert what(fixture_text(script)) == ([], False, False)


@every_script
def test_patching_only_adds_one_block_and_unpatching_gives_the_bytes_back(script):
    text = fixture_text(script)
    patched = safe.patched(text, TCMALLOC)
    added = [line for line in patched.split("\n") if line not in text.split("\n")]
    assert added[0].strip() == safe.BEGIN
    assert len(patched.split("\n")) - len(text.split("\n")) == len(safe.block("C", TCMALLOC))
    assert safe.unpatched(patched) == text
    assert what(patched) == ([TCMALLOC], True, False)


@every_script
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_patched_script_is_valid_for_its_shell(script, shell, tmp_path):
    (tmp_path / "script").write_text(safe.patched(fixture_text(script), TCMALLOC))
    assert subprocess.run([shell, "-n", str(tmp_path / "script")], check=False).returncode == 0


@every_script
def test_another_library_takes_the_place_of_the_first(script):
    text = fixture_text(script)
    assert safe.patched(safe.patched(text, TCMALLOC), JEMALLOC) == safe.patched(text, JEMALLOC)


@given(
    script=st.sampled_from(SCRIPTS),
    library=libraries,
    lines=st.lists(plain_lines, max_size=4),
    where=st.integers(1, 400),
)
def test_patching_is_idempotent_and_reversible_whatever_else_is_in_the_script(script, library, lines, where):
    text = fixture_text(script).split("\n")
    place = min(where, len(text))
    candidate = "\n".join(
        [*text[:place], *(f"# {line}" for line in "\n".join(lines).split("\n")), *text[place:]]
    )
    try:
        safe.inspect(candidate)
    except safe.ScriptError:
        return
    patched = safe.patched(candidate, library)
    assert safe.patched(patched, library) == patched
    assert safe.unpatched(patched) == candidate
    assert safe.inspect(patched).block.library == library


@given(
    script=st.sampled_from(SCRIPTS),
    ending=st.sampled_from(["", "\n", "\n\n", "\n# end, no newline", "\n\udcff"]),
)
def test_the_end_of_the_file_and_bytes_that_are_no_text_survive(script, ending):
    text = fixture_text(script).rstrip("\n") + ending
    assert safe.unpatched(safe.patched(text, TCMALLOC)) == text


HAND_EDITS = {
    "recipe B: exported after the header": ("# executing", "{line}\nexport LD_PRELOAD={lib}"),
    "assigned, then exported in one line": ("# executing", "{line}\nLD_PRELOAD={lib}; export LD_PRELOAD"),
    "assigned, then exported in two": ("# executing", '{line}\nLD_PRELOAD="{lib}"\nexport LD_PRELOAD'),
    "exported with what was inherited": ("# executing", '{line}\nexport LD_PRELOAD="{lib}:$LD_PRELOAD"'),
    "exported with a default": (
        "# executing",
        "{line}\nexport LD_PRELOAD={lib}${{LD_PRELOAD:+:$LD_PRELOAD}} # by me",
    ),
}


def edited(script: str, kind: str, library: str) -> str:
    start, form = HAND_EDITS[kind]
    lines = fixture_text(script).split("\n")
    number = next(index for index, line in enumerate(lines) if line.startswith(start))
    lines[number] = form.format(line=lines[number], lib=library)
    return "\n".join(lines)


@every_script
@pytest.mark.parametrize("kind", HAND_EDITS)
def test_a_hand_edit_with_the_same_library_is_adopted_and_removed_on_request(script, kind):
    text = edited(script, kind, TCMALLOC)
    assert safe.patched(text, TCMALLOC) == text
    assert safe.adopted(safe.inspect(text), TCMALLOC)
    assert what(text) == ([TCMALLOC], False, True)
    assert safe.unpatched(text) == fixture_text(script)


@every_script
@pytest.mark.parametrize("kind", HAND_EDITS)
def test_a_hand_edit_with_another_library_makes_room_for_our_block(script, kind):
    text = edited(script, kind, JEMALLOC)
    assert safe.patched(text, TCMALLOC) == safe.patched(fixture_text(script), TCMALLOC)


@pytest.mark.parametrize(
    ("script", "line", "changed"),
    [
        ("family-b.sh", "    $NOHUP_NICENESS $ledir/", '    LD_PRELOAD="{lib}" $NOHUP_NICENESS $ledir/'),
        ("family-b.sh", "$NOHUP_NICENESS $ledir/", "env LD_PRELOAD={lib} $NOHUP_NICENESS $ledir/"),
        ("family-a.sh", "exec $NOHUP_NICENESS", "exec env LD_PRELOAD='{lib}' $NOHUP_NICENESS"),
        ("family-c-mysql8.sh", 'cmd="`mysqld', 'cmd="LD_PRELOAD={lib} `mysqld'),
        ("family-c-early.sh", 'cmd="$NOHUP', 'cmd="env LD_PRELOAD={lib} $NOHUP'),
        ("family-c-mariadb.sh", "\nmysqld_ld_preload=\n", "\nmysqld_ld_preload={lib}\n"),
        (
            "family-c-mariadb.sh",
            "\nmysqld_ld_preload=\n",
            "\nmysqld_ld_preload=\nmysqld_ld_preload='{lib}'\n",
        ),
        ("family-c-mariadb.sh", "\ncmd=", "\nadd_mysqld_ld_preload {lib}\ncmd="),
    ],
)
def test_a_preload_put_into_the_command_is_found_and_taken_out(script, line, changed):
    pristine = fixture_text(script)
    assert line in pristine
    same = pristine.replace(line, changed.format(lib=TCMALLOC))
    assert safe.patched(same, TCMALLOC) == same
    assert safe.unpatched(same) == pristine
    other = pristine.replace(line, changed.format(lib=JEMALLOC))
    assert safe.patched(other, TCMALLOC) == safe.patched(pristine, TCMALLOC)


def test_a_hand_edit_behind_the_start_of_the_server_does_nothing_and_is_replaced():
    pristine = fixture_text("family-c-mariadb.sh")
    text = pristine.rstrip("\n") + f"\nexport LD_PRELOAD={TCMALLOC}\n"
    assert not safe.adopted(safe.inspect(text), TCMALLOC)
    assert safe.patched(text, TCMALLOC) == safe.patched(pristine, TCMALLOC)


def test_two_hand_edits_of_different_libraries_are_not_adopted():
    text = edited("family-b.sh", "recipe B: exported after the header", f"{TCMALLOC}:{JEMALLOC}")
    assert safe.patched(text, TCMALLOC) == safe.patched(fixture_text("family-b.sh"), TCMALLOC)


def test_two_names_of_one_file_are_one_library():
    text = edited("family-c-early.sh", "recipe B: exported after the header", "/usr/local/lib/libtcmalloc.so")
    assert safe.patched(text, TCMALLOC, resolve=lambda _path: "the same file") == text


@pytest.mark.parametrize(
    "comment", ["#export LD_PRELOAD=/usr/lib/libtcmalloc.so", "  # LD_PRELOAD=/usr/lib/libtcmalloc.so mysqld"]
)
def test_a_comment_is_no_hand_edit(comment):
    text = fixture_text("family-c-mariadb.sh").replace("MYSQLD=mysqld\n", f"MYSQLD=mysqld\n{comment}\n", 1)
    assert safe.inspect(text).hand_edits == ()
    assert safe.unpatched(safe.patched(text, TCMALLOC)) == text


def test_a_block_and_a_hand_edit_added_later_become_one_preload():
    patched = safe.patched(fixture_text("family-c-mysql8.sh"), TCMALLOC)
    both = patched.replace("MYSQLD=mysqld\n", f"export LD_PRELOAD={TCMALLOC}\nMYSQLD=mysqld\n", 1)
    assert safe.BEGIN not in safe.patched(both, TCMALLOC)
    assert safe.unpatched(both) == fixture_text("family-c-mysql8.sh")
    assert safe.without_block(both) == both.replace("\n".join(safe.block("C", TCMALLOC)) + "\n", "")


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("#!/bin/sh\necho hello\n", "not_understood", "0 loops"),
        (
            '#!/bin/sh\nexec /usr/bin/mariadbd-safe "$@"\n',
            "not_understood",
            "a wrapper of /usr/bin/mariadbd-safe",
        ),
        ("#!/usr/bin/perl\nprint 1;\n", "not_a_script", "does not name a shell"),
        ("\x7fELF\x02\x01", "not_a_script", "does not name a shell"),
        ("#!/bin/sh\r\necho\r\n", "line_endings", "CR LF"),
    ],
)
def test_a_script_that_is_not_understood_is_refused_with_what_was_found(text, reason, words):
    with pytest.raises(safe.ScriptError, match=words) as raised:
        safe.patched(text, TCMALLOC)
    assert raised.value.reason == reason


def test_two_loops_or_both_kinds_of_start_are_refused_with_the_counts():
    text = fixture_text("family-c-early.sh")
    loop = next(line for line in text.split("\n") if "for i in  " in line)
    with pytest.raises(safe.ScriptError, match=r"2 loops .* 0 lines"):
        safe.inspect(text.replace(loop, f"{loop}\n{loop}"))
    with pytest.raises(safe.ScriptError, match=r"1 loops .* 1 lines"):
        safe.inspect(f"{text}\n$NOHUP_NICENESS $ledir/mysqld\n")


def test_a_damaged_block_is_refused():
    patched = safe.patched(fixture_text("family-b.sh"), TCMALLOC)
    for damaged in (
        patched.replace(safe.END, "# end"),
        patched.replace(safe.BEGIN, ""),
        patched + patched[9:],
    ):
        with pytest.raises(safe.ScriptError, match="damaged") as raised:
            safe.patched(damaged, TCMALLOC)
        assert raised.value.reason == "damaged_block"


def test_a_hand_edit_that_is_not_understood_is_named_and_refused():
    text = fixture_text("family-b.sh").replace(
        "MYSQLD=mysqld\n", "MYSQLD=mysqld\nexport LD_PRELOAD=$MY_LIB\n", 1
    )
    with pytest.raises(safe.ScriptError, match=r"export LD_PRELOAD=\$MY_LIB") as raised:
        safe.patched(text, TCMALLOC)
    assert raised.value.reason == "hand_edit"


@pytest.mark.parametrize(
    "path", ["/a b.so", "/a:b.so", "/a'b.so", '/a"b.so', "/a$b.so", "/a`b.so", "a.so", "/a;b.so"]
)
def test_a_path_that_ld_so_or_a_shell_would_take_apart_is_refused(path):
    with pytest.raises(safe.ScriptError) as raised:
        safe.patched(fixture_text("family-b.sh"), path)
    assert raised.value.reason == "unsafe_path"


def test_our_block_can_be_taken_out_of_a_script_that_is_not_understood_any_more():
    block = "\n".join(safe.block("C", TCMALLOC))
    assert safe.unpatched(f"#!/bin/sh\n{block}\necho new\n") == "#!/bin/sh\necho new\n"


@pytest.mark.parametrize(
    ("first", "shell"),
    [
        ("#!/bin/sh", ["/bin/sh"]),
        ("#! /bin/bash -e", ["/bin/bash"]),
        ("#!/usr/bin/env bash", ["/usr/bin/env", "bash"]),
        ("#!@SHELL_PATH@", ["/bin/sh"]),
    ],
)
def test_the_scripts_own_shell_is_read_from_its_first_line(first, shell):
    assert safe.interpreter(f"{first}\necho\n") == shell


AUDIT = "/usr/lib/libaudit-hook.so /usr/lib/libz.so.1"


@every_script
def test_a_hand_made_preload_of_something_that_is_no_allocator_stays(script):
    text = edited(script, "recipe B: exported after the header", f'"{AUDIT}"')
    with_ours = safe.patched(text, TCMALLOC)
    assert f'export LD_PRELOAD="{AUDIT}"' in with_ours
    assert safe.inspect(with_ours).block.library == TCMALLOC
    assert safe.unpatched(with_ours) == text
    assert safe.unpatched(text) == text


@pytest.mark.parametrize("value", [f"{TCMALLOC}:/usr/lib/libaudit-hook.so", "/usr/lib/libx.so:" + JEMALLOC])
def test_an_allocator_and_another_library_in_one_hand_made_line_are_refused_with_the_line(value):
    text = edited("family-c-mariadb.sh", "recipe B: exported after the header", value)
    with pytest.raises(safe.ScriptError, match="which is no allocator") as raised:
        safe.patched(text, TCMALLOC)
    assert raised.value.reason == "hand_edit"


CONF = {"MALLOC_CONF": "background_thread:true,narenas:4", "MALLOC_ARENA_MAX": "2"}


@every_script
@pytest.mark.parametrize("library", [TCMALLOC, None])
def test_variables_travel_in_our_block(script, library):
    text = fixture_text(script)
    patched = safe.patched(text, library, environment=CONF)
    found = safe.configured_preload(patched)
    assert (found["own_variables"], found["paths"]) == (CONF, [library] if library else [])
    assert safe.patched(patched, library, environment=CONF) == patched
    assert safe.patched(patched, TCMALLOC) == safe.patched(text, TCMALLOC)
    assert safe.unpatched(patched) == text


def test_a_hand_edit_with_the_same_library_makes_way_for_variables():
    text = edited("family-c-mariadb.sh", "recipe B: exported after the header", TCMALLOC)
    patched = safe.patched(text, TCMALLOC, environment=CONF)
    assert what(patched) == ([TCMALLOC], True, False)
    assert safe.unpatched(patched) == fixture_text("family-c-mariadb.sh")


@pytest.mark.parametrize("value", ["a b", "$(id)", "a;b", 'a"b', "a`b", "a\nb", "*"])
def test_a_value_that_a_shell_would_take_apart_is_refused(value):
    with pytest.raises(safe.ScriptError, match="the value of MALLOC_CONF has") as raised:
        safe.patched(fixture_text("family-b.sh"), None, environment={"MALLOC_CONF": value})
    assert raised.value.reason == "invalid_environment"


@every_script
def test_a_preload_of_others_behind_the_place_of_our_block_is_refused(script):
    lines = fixture_text(script).split("\n")
    lines.insert(safe.inspect(fixture_text(script)).anchor + 1, "export LD_PRELOAD=/opt/none/libgovernor.so")
    with pytest.raises(safe.ScriptError, match="after the place of our block, too late"):
        safe.inspect("\n".join(lines))


def test_a_preload_inside_a_function_is_refused_for_it_may_come_too_late():
    text = fixture_text("family-c-mysql8.sh")
    head = "mysqld_ld_preload_text() {"
    edited = text.replace(head, f"{head}\n  export LD_PRELOAD=/opt/none/libgovernor.so")
    assert edited != text
    with pytest.raises(safe.ScriptError, match="stands inside a function"):
        safe.patched(edited, TCMALLOC)
