# SPDX-License-Identifier: GPL-3.0-or-later
"""Install the transaction's program on the host and start it out of reach of whoever started it.

The program is a zip file of our own sources with what they import, so that it needs neither Ansible nor us.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import os
import subprocess
import sys
import time
import zipfile
from typing import Any, Callable, Dict, List, Mapping, Optional, Set

from .command import Completed
from .command import run as run_command
from .durable import FileState, discard, replace, write_json
from .lease import STATE_ROOT, JournalError
from .restart import SYSTEMD
from .runlog import RESULTS, SPECS, program_running, recorded, run_directory
from .transaction import LOG

PACKAGE = "fleet_mysqltune_host"
PROGRAM = "program.pyz"
STARTUP = 60.0
HOME = os.path.expanduser("~")
"""Where the client looks for its own option file, which a service of the system would not know."""
TICK = 0.05
MAINS = {"transaction": "main(sys.argv[1:])", "host_undo": "run_from()"}
"""How each program is entered, by the module that it begins with."""


def sources(first: str = "transaction") -> Dict[str, str]:
    """Return the sources of our module ``first`` and of all that it imports from us, by name."""
    found: Dict[str, str] = {}
    wanted: Set[str] = {first}
    while wanted:
        name = wanted.pop()
        found[name] = _source(name)
        wanted |= _imports(found[name]) - set(found)
    return found


def _source(name: str) -> str:
    """Read a module's source through its loader: from a checkout as well as from Ansible's zip file."""
    full = f"{__name__.rpartition('.')[0]}.{name}"
    spec = importlib.util.find_spec(full)
    loader: Any = spec.loader if spec else None
    source = loader.get_source(full) if loader else None
    if not isinstance(source, str):
        raise JournalError(f"the source of {full} cannot be read; the transaction's program needs it")
    return source


def _imports(source: str) -> Set[str]:
    """Return the names of our modules that a source imports (``from .x import y``)."""
    nodes = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.level == 1
    ]
    return {node.module.split(".")[0] for node in nodes if node.module}


def program(first: str = "transaction") -> bytes:
    """Return a program as a zip file that Python runs: the same bytes whenever and wherever it is made."""
    call = MAINS[first]
    files = {
        "__main__.py": f"import sys\nfrom {PACKAGE}.{first} import {call.split('(')[0]}\nsys.exit({call})\n",
        f"{PACKAGE}/__init__.py": "",
        **{f"{PACKAGE}/{name}.py": source for name, source in sorted(sources(first).items())},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, source in files.items():  # an entry without a time, for two programs must be comparable
            archive.writestr(zipfile.ZipInfo(name), source, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def start(action: str, spec: Mapping[str, Any], run: Callable[..., Completed] = run_command) -> None:
    """Write the spec and the program down and start it; ``JournalError`` if it does not start.

    ``action`` is ``activate`` or ``undo``; ``spec`` has ``run_id`` and ``root``, whose directory exists.
    """
    run_id, root = str(spec["run_id"]), str(spec["root"])
    directory = run_directory(run_id, root)
    state = FileState(program(), 0o600, os.geteuid(), os.getegid(), {})
    try:
        replace(os.path.join(directory, PROGRAM), state, os.path.join(directory, f"{PROGRAM}.tmp"))
        write_json(os.path.join(directory, SPECS[action]), spec)
        discard(os.path.join(directory, RESULTS[action]))
    except OSError as error:
        raise JournalError(f"cannot write {directory}: {error.strerror}. Nothing was restarted.") from error
    program_path = os.path.join(directory, PROGRAM)
    argv = [sys.executable or "/usr/bin/python3", "-I", program_path, action, root, run_id]
    if os.path.isdir(SYSTEMD):
        _start_unit(argv, f"fleet-mysqltune-{action}-{run_id}", run)
    else:
        _start_session(argv)


def _start_unit(argv: List[str], unit: str, run: Callable[..., Completed]) -> None:
    """Start it as a service of its own: neither a closed SSH connection nor a logout ends it."""
    options = ["--quiet", "--collect", f"--unit={unit}", "--setenv=LC_ALL=C", f"--setenv=HOME={HOME}"]
    done = run(["systemd-run", *options, "-p", "OOMScoreAdjust=-900", *argv], timeout=60.0)
    if done.rc:
        raise JournalError(f"systemd-run did not start the transaction: {(done.err or done.out).strip()}")


def _start_session(argv: List[str]) -> None:
    """Start it in a session of its own; init adopts it when we end."""
    subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={**os.environ, "HOME": HOME},
        start_new_session=True,
        close_fds=True,
    )


def result(action: str, run_id: str, root: str = STATE_ROOT) -> Optional[Dict[str, Any]]:
    """Return the result that the program wrote down, None while there is none."""
    found = recorded(run_id, RESULTS[action], root)
    return found if isinstance(found, dict) else None


def wait(action: str, run_id: str, root: str, limit: float) -> Dict[str, Any]:
    """Wait for the program's end and its result.

    ``JournalError`` if it ended without one, or if it takes longer than ``limit`` seconds.
    """
    begin = time.monotonic()
    seen = False
    while True:
        running = program_running(run_id, root)
        found = result(action, run_id, root)
        if found and not running:
            return found
        seen = seen or running
        waited = time.monotonic() - begin
        if not running and (seen or waited > STARTUP):
            said = _last_words(run_id, root)
            raise JournalError(f"the transaction of run {run_id} ended without a result. It said: {said}")
        if waited > limit:
            raise JournalError(
                f"the transaction of run {run_id} is still at work after {waited:.0f} s. It ends by itself, "
                "in a commit or in the old state: ask again with the same run_id for its result."
            )
        time.sleep(TICK)


def _last_words(run_id: str, root: str) -> str:
    path = os.path.join(run_directory(run_id, root), LOG)
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return " | ".join(stream.read().strip().splitlines()[-3:]) or f"{path} is empty"
    except OSError:
        return "it wrote no log"
