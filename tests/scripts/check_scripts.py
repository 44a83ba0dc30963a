#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that our block gives the preload to mysqld alone, in any mysqld_safe script: check_scripts.py FILE|DIRECTORY...

Each script runs on a stage of stubs under dash, bash, mksh and busybox, as it is and with our block, with a first crash of the
server so that the restart loop runs, with --syslog, --nice, --numa-interleave, --malloc-lib, --nowatch, --dry-run and an
inherited LD_PRELOAD. The two runs may differ in one thing only: the server has our library first, and our variable.

What the script does with a malloc-lib is compared with what ``malloc_lib.accepts`` predicts, on the command line and from an
option file, with and without a my.cnf in the data directory.
"""

from __future__ import annotations

import collections
import concurrent.futures
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(Path(__file__).resolve().parent)]

from ansible_collections.fleet.mysqltune.plugins.module_utils import mysqld_safe as safe  # noqa: E402
from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_lib import accepts  # noqa: E402
from stage import SHELLS, Given, Ran, Stage  # noqa: E402

LIBRARY = "/opt/none/libtcmalloc_minimal.so.4"
VARIABLES = {"MALLOC_CONF": "narenas:4,background_thread:true"}
PLACE = "/usr/lib/x86_64-linux-gnu"  # where all vendors accept a malloc-lib
INHERITED, NATIVE = f"{PLACE}/libdl.so.2", f"{PLACE}/libm.so.6"


class Case(NamedTuple):
    """How a script is run; ``word`` has to be in the script, or it does not know the option."""

    options: tuple[str, ...]
    word: str = ""
    inherited: str = ""
    crash: bool = True


CASES = (
    Case(()),
    Case(("--syslog", "--nice=3"), inherited=INHERITED),
    Case((f"--malloc-lib={NATIVE}", "--numa-interleave")),
    Case(("--nowatch",), word="nowatch", crash=False),
    Case(("--dry-run",), word="dry-run", crash=False),
)


WORDS = ("tcmalloc", "tcmalloc_minimal", "jemalloc", "libm.so.6")  # never predicted to be taken
DEFAULTS = """#!/bin/dash
for word; do test "$word" != mysqld_safe || cat "$STAGE/defaults" 2>/dev/null; done
"""


class Verdict(NamedTuple):
    """What became of one script: its family, the shells that ran it, what is wrong, and the predictions by their ends."""

    path: Path
    family: str
    ran: tuple[str, ...]
    wrong: tuple[str, ...]
    predicted: tuple[str, ...] = ()


def check(path: Path) -> Verdict:
    """Check one script on a stage of its own."""
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    try:
        family = safe.inspect(text).family
        patched = safe.patched(text, LIBRARY, environment=VARIABLES)
    except safe.ScriptError as error:
        return Verdict(path, "-", (), (f"{error.reason}: {error}",))
    wrong = list(_text_problems(text, patched))
    with tempfile.TemporaryDirectory(prefix="stage", ignore_cleanup_errors=True) as directory:
        stage = Stage(Path(directory) / "stage")
        ran, more = _run_all(stage, text, patched)
        if not ran:
            return Verdict(path, family, (), (*wrong, "no shell starts the server, or only once"))
        predicted = []
        for library, channel, foretold, taken in predictions(stage, text, [ran[0]]):
            word = library in WORDS
            predicted.append(f"{'word' if word else 'path'} {'taken' if taken else 'not taken'}")
            if (foretold is None) != taken and not word:
                more.append(
                    f"malloc-lib={library} ({channel}): {foretold or 'foretold to be taken'}; taken: {taken}"
                )
    return Verdict(path, family, tuple(ran), (*wrong, *more), tuple(predicted))


def _run_all(stage: Stage, text: str, patched: str) -> tuple[list[str], list[str]]:
    """Run the script as it was in the first shell that can, with our block in each: the shells, and what is wrong."""
    cases = [case for case in CASES if case.word in text]
    before: dict[Case, Ran] = {}
    ran: list[str] = []
    wrong: list[str] = []
    for shell in SHELLS:
        if not ran:
            before = {case: run(stage, text, shell, case) for case in cases}
        if len(before[CASES[0]].server) > 1:
            ran.append(shell[0])
            for case in cases:
                if "--dry-run" in case.options:  # shells print the same things in different ways
                    before[case] = run(stage, text, shell, case)
                found = problems(case, before[case], run(stage, patched, shell, case))
                wrong += [f"{shell[0]}: {one}" for one in found]
    return ran, wrong


def predictions(
    stage: Stage, text: str, shell: list[str]
) -> Iterator[tuple[str, str, tuple[str, str] | None, bool]]:
    """Yield each library and where it was named, why it was foretold not to be taken, and whether it was taken."""
    stage.program("bin/my_print_defaults", DEFAULTS)
    for library in [*_samples(stage), *WORDS]:
        for channel in ("command line", "option file", "option file, my.cnf in the data directory"):
            (stage.path / "data/my.cnf").unlink(missing_ok=True)
            (stage.path / "defaults").write_text(f"--malloc-lib={library}\n" if channel[0] == "o" else "")
            if "my.cnf" in channel:
                (stage.path / "data/my.cnf").touch()
            more = [f"--malloc-lib={library}"] if channel[0] == "c" else []
            ran = stage.run(text, shell, *_options(stage), *more, crash=False)
            wanted = {library, os.path.realpath(library)}
            taken = any(
                given.preload if library in WORDS else given.preload in wanted for given in ran.server
            )
            foretold = accepts(text, library, os.path.realpath, str(stage.path), "my.cnf" in channel)
            yield library, channel, foretold, taken


def _samples(stage: Stage) -> Iterator[str]:
    """Yield libraries: where all vendors take them, in the base directory, elsewhere, by links, and local ones."""
    yield NATIVE
    yield NATIVE.replace("/usr/lib/", "/lib/")
    for place in ("lib", "opt"):
        (stage.path / place).mkdir(exist_ok=True)
        yield str(shutil.copy(NATIVE, stage.path / place / "libtcmalloc.so.4"))
    (stage.path / "lib/liblink.so").symlink_to(stage.path / "opt/libtcmalloc.so.4")
    yield str(stage.path / "lib/liblink.so")
    for pattern in ("/usr/local/lib/lib*.so*", "/opt/*/lib*.so*"):
        yield from sorted(glob.glob(pattern))[:1]
    links = (path for path in sorted(glob.glob(f"{PLACE}/lib*.so*")) if os.path.exists(path))
    yield from [
        path for path in links if not os.path.realpath(path).startswith(("/usr/lib/", "/usr/lib64/"))
    ][:1]


def _text_problems(text: str, patched: str) -> Iterator[str]:
    if safe.patched(patched, LIBRARY, environment=VARIABLES) != patched:
        yield "patched twice differs from patched once"
    if safe.unpatched(patched) != text:
        yield "the original bytes do not come back"


def _options(stage: Stage) -> list[str]:
    """Tell the script where it is installed, in the words that scripts of every age understand."""
    here = str(stage.path)
    return [
        *("--no-defaults", f"--basedir={here}", f"--ledir={here}/libexec", f"--datadir={here}/data"),
        *(f"--pid-file={here}/data/server.pid", f"--log-error={here}/error.log", "--user=root"),
    ]


def run(stage: Stage, text: str, shell: list[str], case: Case) -> Ran:
    """Run a script as the case says."""
    options = [*_options(stage), *case.options]
    return stage.run(text, shell, *options, inherited=case.inherited, crash=case.crash)


def problems(case: Case, before: Ran, after: Ran) -> Iterator[str]:
    """Yield what our block has changed beyond what the server is given."""
    name = " ".join(case.options) or "plain"
    if "--dry-run" in case.options:
        if (before.out, before.server) != (after.out, after.server):
            yield f"{name}: prints or starts something else than before"
        return
    expected = [Given(_joined(LIBRARY, given.preload), VARIABLES["MALLOC_CONF"]) for given in before.server]
    found = [Given(_joined(given.preload), given.variable) for given in after.server]
    if found != expected:
        yield f"{name}: the server has {found}, not {expected}"
    if after.argv != before.argv:
        yield f"{name}: the server's arguments differ"
    for helper, given in after.helpers.items():
        if any(LIBRARY in one.preload or one.variable == VARIABLES["MALLOC_CONF"] for one in given):
            yield f"{name}: {helper} has our library or variable: {sorted(given)}"


def _joined(*preloads: str) -> str:
    return ":".join(word for preload in preloads for word in safe.split_preload(preload))


def scripts(arguments: list[str]) -> list[Path]:
    """Return the files named, and those in the directories named."""
    named = [Path(argument) for argument in arguments]
    return sorted(
        file for path in named for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()
    )


def main() -> int:
    """Check every script, print a line for each that fails, and the totals."""
    paths = scripts(sys.argv[1:])
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(check, paths))
    for verdict in verdicts:
        for one in verdict.wrong:
            print(f"{verdict.path.name}: {one[:400]}")
    families = collections.Counter(verdict.family for verdict in verdicts)
    runs = collections.Counter(shell for verdict in verdicts for shell in verdict.ran)
    bad = sum(1 for verdict in verdicts if verdict.wrong)
    print(
        f"{len(verdicts)} scripts: {', '.join(f'{count} of family {name}' for name, count in sorted(families.items()))}"
    )
    print(f"started under {', '.join(f'{shell}: {count}' for shell, count in runs.items())}")
    predicted = collections.Counter(one for verdict in verdicts for one in verdict.predicted)
    print(f"malloc-lib: {', '.join(f'{count} x {name}' for name, count in sorted(predicted.items()))}")
    print(f"{len(verdicts) - bad} passed, {bad} failed")
    return 1 if bad or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
