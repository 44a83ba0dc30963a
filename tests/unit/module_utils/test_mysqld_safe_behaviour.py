"""The core promise, tried with real shells: the server gets the preload, nothing else does."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.mysqld_safe import patched
from safe_scripts import SCRIPTS, fixture_text
from stage import SHELLS, Given, Stage

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
VARIABLES = {"MALLOC_CONF": "narenas:4"}
every_script = pytest.mark.parametrize("script", SCRIPTS)
every_shell = pytest.mark.parametrize("shell", SHELLS, ids=[shell[0] for shell in SHELLS])


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path / "stage")


def preloads(ran):
    return [given.preload for given in ran.server]


def test_dash_and_bash_are_among_the_shells():
    assert SHELLS[:2] == [["dash"], ["bash"]]


@every_shell
@every_script
@pytest.mark.parametrize("options", OPTIONS, ids=[" ".join(options) or "plain" for options in OPTIONS])
def test_only_the_server_gets_the_library_at_each_restart(stage: Stage, script, shell, options):
    if script.startswith(("family-a", "family-b")) and "--init-file=/a b" in options:
        options = ("--max-connections=7",)
    ran = stage.run(patched(fixture_text(script), LIBRARY), shell, *options)
    assert preloads(ran) == [LIBRARY, LIBRARY], ran.err
    assert ran.preloads == {""}
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
    assert preloads(ran) == [f"{LIBRARY}:{INHERITED}:{NATIVE}"] * 2
    assert ran.preloads == {f"{INHERITED} {NATIVE}"}


@every_shell
@pytest.mark.parametrize("script", ["family-c-mariadb.sh", "family-c-mysql8.sh"])
def test_the_scripts_own_preload_is_kept_behind_ours(stage: Stage, script, shell):
    ran = stage.run(
        patched(fixture_text(script), LIBRARY), shell, f"--malloc-lib={NATIVE}", inherited=INHERITED
    )
    assert preloads(ran) == [f"{LIBRARY}:{NATIVE}:{INHERITED}"] * 2


@every_shell
def test_numactl_and_an_unwatched_server_are_no_exception(stage: Stage, shell):
    text = patched(fixture_text("family-c-mariadb.sh"), LIBRARY)
    ran = stage.run(text, shell, "--numa-interleave", "--nowatch", crash=False)
    assert preloads(ran) == [LIBRARY]
    assert ran.helpers["numactl"] == {Given("", "")}


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
    assert LIBRARY in ran.preloads


@every_shell
@every_script
@pytest.mark.parametrize("library", [LIBRARY, None])
def test_the_variables_reach_the_server_alone(stage: Stage, script, shell, library):
    ran = stage.run(patched(fixture_text(script), library, environment=VARIABLES), shell, inherited=INHERITED)
    expected = f"{LIBRARY}:{INHERITED}" if library else INHERITED
    assert ran.server == [Given(expected, "narenas:4")] * 2, ran.err
    assert {given for helper in ran.helpers.values() for given in helper} == {Given(INHERITED, "")}
