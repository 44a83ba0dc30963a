"""Scripts that were made up: whatever stands in them, our block changes what the server is given and nothing else."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ansible_collections.fleet.mysqltune.plugins.module_utils import mysqld_safe as safe
from check_scripts import CASES, LIBRARY, VARIABLES, problems, run
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from safe_scripts import SCRIPTS, fixture_text
from stage import Stage

LINES = (
    "# export LD_PRELOAD=/usr/lib/libtcmalloc.so.0",
    "  # LD_PRELOAD=/usr/lib/libjemalloc.so.1; export LD_PRELOAD",
    "export LD_PRELOAD=/opt/none/libgovernor.so",
    "LD_PRELOAD=/opt/none/libgovernor.so; export LD_PRELOAD",
    "unset LD_PRELOAD",
    "set -e",
    "set -u; set +u",
    "umask 007",
    "x=1",
    "date >/dev/null",
    'if test -n "$x"; then date >/dev/null; fi',
    "echo 'starting $NOHUP_NICENESS' >/dev/null",
    "MALLOC_CONF=narenas:1; unset MALLOC_CONF",
    "MALLOC_CONF=narenas:1; export MALLOC_CONF",
)
additions = st.lists(st.tuples(st.integers(1, 200), st.sampled_from(LINES)), max_size=4)


def is_valid(text: str) -> bool:
    return (
        subprocess.run(["dash", "-n"], input=text, text=True, capture_output=True, check=False).returncode
        == 0
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(script=st.sampled_from(SCRIPTS), added=additions, tabs=st.booleans())
def test_a_made_up_script_gives_the_server_alone_what_our_block_says(
    script: str, added: list[tuple[int, str]], tabs: bool
) -> None:
    lines = fixture_text(script).split("\n")
    for place, line in added:
        lines.insert(min(place, len(lines)), line)
    text = "\n".join(lines)
    text = text.replace("\n  ", "\n\t") if tabs else text
    assume(is_valid(text))
    try:
        patched = safe.patched(text, LIBRARY, environment=VARIABLES)
    except safe.ScriptError as error:
        if error.reason != "hand_edit":
            raise
        return
    assert safe.patched(patched, LIBRARY, environment=VARIABLES) == patched
    assert safe.unpatched(patched) == text
    with tempfile.TemporaryDirectory(prefix="stage") as folder:
        stage = Stage(Path(folder) / "stage")
        before, after = (run(stage, one, ["dash"], CASES[0]) for one in (text, patched))
    assert not list(problems(CASES[0], before, after))
