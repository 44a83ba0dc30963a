"""The core promise, tried with real shells: the server gets the preload, nothing else does."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.mysqld_safe import patched
from safe_stage import SCRIPTS, SHELLS, Stage, fixture_text
from safe_stage import stage as stage  # a fixture

LIBRARY = "/opt/none/libtcmalloc_minimal.so.4"
INHERITED = "/opt/none/libgovernor.so"
NATIVE = "/opt/none/libhotbackup.so"
OPTIONS = [
    (),
    ("--nice=3",),
    ("--syslog",),
    ("--nice=3", "--syslog"),
    ("--max-connections=7", "--init-file=/a b"),
]
every_script = pytest.mark.parametrize("script", SCRIPTS)
every_shell = pytest.mark.parametrize("shell", SHELLS, ids=[shell[0] for shell in SHELLS])


def test_dash_and_bash_are_among_the_shells():
    assert SHELLS[:2] == [["dash"], ["bash"]]


@every_shell
@every_script
@pytest.mark.parametrize("options", OPTIONS, ids=[" ".join(options) or "plain" for options in OPTIONS])
def test_only_the_server_gets_the_library_at_each_restart(stage: Stage, script, shell, options):
    if script.startswith(("family-a", "family-b")) and "--init-file=/a b" in options:
        options = ("--max-connections=7",)
    ran = stage.run(patched(fixture_text(script), LIBRARY), shell, *options)
    assert ran.server == [LIBRARY, LIBRARY], ran.err
    assert set().union(*ran.helpers.values()) == {""}
    assert {"nohup", "env", "date"} <= set(ran.helpers)
    assert [word for word in options if word not in ("--syslog", "--nice=3")] == ran.argv[
        len(ran.argv) - _extra(options) :
    ]


def _extra(options: tuple[str, ...]) -> int:
    return len([word for word in options if word not in ("--syslog", "--nice=3")])


@every_shell
@every_script
def test_an_inherited_preload_is_kept_behind_ours(stage: Stage, script, shell):
    ran = stage.run(patched(fixture_text(script), LIBRARY), shell, inherited=f"{INHERITED} {NATIVE}")
    assert ran.server == [f"{LIBRARY}:{INHERITED}:{NATIVE}"] * 2
    assert set().union(*ran.helpers.values()) == {f"{INHERITED} {NATIVE}"}


@every_shell
@pytest.mark.parametrize("script", ["family-c-mariadb.sh", "family-c-mysql8.sh"])
def test_the_scripts_own_preload_is_kept_behind_ours(stage: Stage, script, shell):
    ran = stage.run(
        patched(fixture_text(script), LIBRARY), shell, f"--malloc-lib={NATIVE}", inherited=INHERITED
    )
    assert ran.server == [f"{LIBRARY}:{NATIVE}:{INHERITED}"] * 2


@every_shell
def test_numactl_and_an_unwatched_server_are_no_exception(stage: Stage, shell):
    text = patched(fixture_text("family-c-mariadb.sh"), LIBRARY)
    ran = stage.run(text, shell, "--numa-interleave", "--nowatch", crash=False)
    assert ran.server == [LIBRARY]
    assert ran.helpers["numactl"] == {""}


@every_shell
def test_a_dry_run_prints_what_it_printed_before(stage: Stage, shell):
    text = fixture_text("family-c-mariadb.sh")
    before = stage.run(text, shell, "--dry-run", crash=False)
    after = stage.run(patched(text, LIBRARY), shell, "--dry-run", crash=False)
    assert after.out == before.out
    assert before.out


@every_shell
@every_script
def test_the_server_gets_the_same_arguments_as_before(stage: Stage, script, shell):
    text = fixture_text(script)
    before = stage.run(text, shell, "--port=1", "--nice=2").argv
    assert stage.run(patched(text, LIBRARY), shell, "--port=1", "--nice=2").argv == before != []


@every_script
def test_the_checker_itself_notices_a_library_that_reaches_helpers(stage: Stage, script):
    first, rest = fixture_text(script).split("\n", 1)
    ran = stage.run(f"{first}\nexport LD_PRELOAD={LIBRARY}\n{rest}", ["dash"])
    assert LIBRARY in set().union(*ran.helpers.values())
