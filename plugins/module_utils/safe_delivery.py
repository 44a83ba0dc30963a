# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a mysqld_safe script and its option files should say, and whether the servers that it started have it."""

from __future__ import annotations

import os
from typing import Callable, Iterator, List, Mapping, Optional, Tuple

from . import option_file
from .command import Completed
from .evidence import environment as process_environment
from .mysqld_safe import interpreter, without_block
from .preload_list import split_preload
from .safe_methods import decide
from .safe_option_files import OWN_NAME, Runner, idle, started, texts
from .safe_state import Change, Delivery, Wanted, read_exactly

__all__ = ["Change", "Delivery", "Wanted", "check_syntax", "delivery"]

_SERVERS = ("mysqld", "mariadbd", "mysqld-debug")


def delivery(path: str, wanted: Wanted = Wanted(), proc: str = "/proc") -> Delivery:  # noqa: B008 - immutable
    """Compare the script and its option files with what they should give the server; else ``ScriptError``."""
    real = os.path.realpath(path)
    before = read_exactly(real)
    processes = dict(_processes(proc))
    below = dict(_started_by(real, processes))
    runners = [_runner(real, pid, starter, processes, proc) for pid, starter in below.items()] or [idle(real)]
    options = texts(runners)
    result = Delivery(path, real, before, before, runners, options)
    result.options_after = {file: _rest(file, without_block(text)) for file, text in options.items()}
    decide(result, wanted)
    result.in_use = bool(below)
    result.bypassed = not below and any(map(_is_server, processes.values()))
    result.restart_required = any(_stale(pid, result, proc) for pid in below)
    return result


def _rest(file: str, text: str) -> Optional[str]:
    """Return what remains of an option file: a file that may be ours alone goes when nothing else is in it."""
    return (
        text
        if text or (os.path.basename(file) != OWN_NAME and file not in option_file.GLOBAL_FILES)
        else None
    )


def _runner(
    real: str, pid: int, starter: int, processes: Mapping[int, Tuple[int, List[str]]], proc: str
) -> Runner:
    try:
        environ = process_environment(pid, proc)
    except OSError:
        environ = {}
    return started(real, processes[starter][1], processes[pid][1], environ)


def _stale(pid: int, wanted: Delivery, proc: str) -> bool:
    """Compare what a server has with the script's: what it inherited from elsewhere does not count."""
    try:
        running = process_environment(pid, proc)
    except OSError:
        return False
    has = {*map(os.path.realpath, split_preload(running.get("LD_PRELOAD", ""))), *running.items()}
    wants, had = wanted.given(after=True), wanted.given()
    return not wants <= has or bool((had - wants) & has)


def _started_by(real_path: str, processes: Mapping[int, Tuple[int, List[str]]]) -> Iterator[Tuple[int, int]]:
    """Yield the pid of each server that this script started, and that of the shell that runs the script."""
    for pid in processes:
        if _is_server(processes[pid]):
            for ancestor in _ancestors(pid, processes):
                words = processes[ancestor][1][:3]
                if any(word.startswith("/") and os.path.realpath(word) == real_path for word in words):
                    yield pid, ancestor
                    break


def _is_server(process: Tuple[int, List[str]]) -> bool:
    return os.path.basename(process[1][0]) in _SERVERS


def _ancestors(pid: int, processes: Mapping[int, Tuple[int, List[str]]]) -> List[int]:
    found: List[int] = []
    parent = processes[pid][0]
    while parent in processes and parent not in found:
        found.append(parent)
        parent = processes[parent][0]
    return found


def _processes(proc: str) -> Iterator[Tuple[int, Tuple[int, List[str]]]]:
    """Yield pid, parent and command line of each process."""
    for name in filter(str.isdigit, os.listdir(proc)):
        try:
            with open(f"{proc}/{name}/stat", encoding="utf-8", errors="replace") as stream:
                parent = int(stream.read().rsplit(")", 1)[1].split()[1])
            with open(f"{proc}/{name}/cmdline", encoding="utf-8", errors="surrogateescape") as stream:
                argv = stream.read().split("\0")
        except (OSError, IndexError, ValueError):
            continue
        if argv[0]:
            yield int(name), (parent, argv)


def check_syntax(temp: str, text: str, run: Callable[..., Completed]) -> Optional[str]:
    """Let the script's own shell read the new file without running it; return its complaint or None."""
    shell = interpreter(text)
    done = run([*shell, "-n", temp], timeout=30.0)
    if done.rc == 0:
        return None
    return f"{' '.join(shell)} -n says: {(done.err or done.out).strip()[:300]}"
