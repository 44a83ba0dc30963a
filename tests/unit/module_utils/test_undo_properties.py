# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever runs and people do to some files in whatever order: applied twice is applied once, undone is as before."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from ansible_collections.fleet.mysqltune.plugins.module_utils import journal as j
from ansible_collections.fleet.mysqltune.plugins.module_utils import mysqld_safe as safe
from ansible_collections.fleet.mysqltune.plugins.module_utils.runlog import runs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safe_scripts import SCRIPTS, fixture_text

Wanted = Tuple[str, Optional[bytes]]
State = Optional[Tuple[bytes, int, Dict[str, bytes]]]

LIBRARY = "/usr/lib/libtcmalloc.so.4"
NAMES = ("one", "two", "deep/three")
few = settings(max_examples=60, deadline=None)
files = st.sampled_from(NAMES)
contents = st.one_of(st.none(), st.binary(max_size=12))
changes = st.lists(st.tuples(files, contents), max_size=4)
foreign_changes = st.lists(
    st.tuples(files, st.one_of(st.none(), st.binary(max_size=12).map(b"by somebody else ".__add__))),
    max_size=4,
)
beginnings = st.dictionaries(
    files, st.tuples(st.binary(max_size=12), st.sampled_from([0o600, 0o640, 0o755])), max_size=3
)


class Stage:
    """A directory with some files, and a state directory beside it."""

    def __init__(self, folder: str, beginning: Dict[str, Tuple[bytes, int]]) -> None:
        self.root, self.etc = os.path.join(folder, "state"), Path(folder, "etc")
        self.etc.mkdir()
        for name, (content, mode) in beginning.items():
            self.edit((name, content))
            (self.etc / name).chmod(mode)
            os.setxattr(self.etc / name, "user.label", content + b"label")

    def apply(self, run_id: str, wanted: List[Wanted]) -> None:
        with j.journal_for(run_id, self.root) as journal:
            for name, content in wanted:
                path = str(self.etc / name)
                if content is None:
                    journal.remove(path)
                else:
                    journal.write(path, content)
            journal.close("committed")

    def edit(self, wanted: Wanted) -> None:
        """Do what a person would do, without the journal."""
        path = self.etc / wanted[0]
        if wanted[1] is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(wanted[1])

    def state(self, name: str) -> State:
        path = self.etc / name
        if not path.exists():
            return None
        labels = {key: os.getxattr(path, key) for key in os.listxattr(path)}
        return path.read_bytes(), path.stat().st_mode & 0o7777, labels

    def states(self) -> Dict[str, State]:
        return {name: self.state(name) for name in NAMES}

    def undo_all(self) -> None:
        for _ in runs(self.root):
            j.restore(None, self.root)


@few
@given(beginning=beginnings, wanted=changes)
def test_applied_twice_is_applied_once(beginning: Dict[str, Tuple[bytes, int]], wanted: List[Wanted]) -> None:
    last = list(dict(wanted).items())
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder, beginning)
        stage.apply("run-1", last)
        once, known = stage.states(), len(runs(stage.root))
        stage.apply("run-2", last)
        assert stage.states() == once
        assert len(runs(stage.root)) == known


@few
@given(beginning=beginnings, applied=st.lists(changes, max_size=4))
def test_undone_through_any_number_of_runs_is_as_before(
    beginning: Dict[str, Tuple[bytes, int]], applied: List[List[Wanted]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder, beginning)
        before = stage.states()
        for number, wanted in enumerate(applied):
            stage.apply(f"run-{number}", wanted)
        stage.undo_all()
        assert stage.states() == before


@few
@example(beginning={"one": (b"", 0o600)}, wanted=[("one", None), ("one", b"")], edits=[("one", None)])
@given(beginning=beginnings, wanted=changes, edits=foreign_changes)
def test_an_undo_never_destroys_what_somebody_else_wrote_since(
    beginning: Dict[str, Tuple[bytes, int]], wanted: List[Wanted], edits: List[Wanted]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder, beginning)
        before = stage.states()
        stage.apply("run-1", wanted)
        left = stage.states()
        for edit in edits:
            stage.edit(edit)
        edited = stage.states()
        j.restore(None, stage.root)
        for name, now in stage.states().items():
            assert now == (before[name] if edited[name] == left[name] else edited[name])


@few
@given(
    script=st.sampled_from(SCRIPTS), line=st.from_regex(r"# [a-z ]{0,30}", fullmatch=True), end=st.booleans()
)
def test_an_edit_of_a_patched_script_survives_the_undo_and_our_block_does_not(
    script: str, line: str, end: bool
) -> None:
    original = fixture_text(script)
    edited = _with_line(original, line, end)
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder, {"one": (original.encode(), 0o755)})
        path = stage.etc / "one"
        with j.journal_for("run-1", stage.root) as journal:
            journal.write(str(path), safe.patched(original, LIBRARY).encode(), kind="mysqld_safe")
            journal.close("committed")
        path.write_text(_with_line(path.read_text(), line, end))
        assert j.restore(None, stage.root).ok
        assert path.read_text() == edited


def _with_line(text: str, line: str, end: bool) -> str:
    """Add a line behind the first one, or at the end."""
    first, newline, rest = text.partition("\n")
    return f"{text}{line}\n" if end else f"{first}{newline}{line}\n{rest}"
