# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a mysqld_safe script should say, and whether the servers that it started have it already."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from .command import Completed
from .evidence import environment as process_environment
from .mysqld_safe import (
    HandEdit,
    ScriptError,
    adopted,
    configured_preload,
    inspect,
    interpreter,
    patched,
    unpatched,
    without_block,
)
from .preload_list import split_preload
from .redaction import redacted

_SERVERS = ("mysqld", "mariadbd", "mysqld-debug")


@dataclass
class Delivery:
    """The script as it is and as it should be.

    ``in_use``: a running server was started by it; ``bypassed``: servers run, and all were started otherwise.
    """

    path: str
    real_path: str
    before: str
    after: str
    family: str = ""
    adopted: bool = False
    hand_edits: List[HandEdit] = field(default_factory=list)
    in_use: bool = False
    bypassed: bool = False
    restart_required: bool = False

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def diff(self) -> Dict[str, str]:
        return {
            "before_header": self.real_path,
            "after_header": self.real_path,
            "before": _printable(self.before),
            "after": _printable(self.after),
        }

    def facts(self) -> Dict[str, Any]:
        """Return what the module returns beside ``changed`` and ``diff``."""
        return {
            "path": self.path,
            "real_path": self.real_path,
            "family": self.family,
            "preload": configured_preload(self.after)["paths"],
            "adopted": self.adopted,
            "hand_edits": [{"line": edit.line, "text": _printable(edit.text)} for edit in self.hand_edits],
            "in_use": self.in_use,
            "restart_required": self.restart_required,
            "overridden_by": [],
        }


def _printable(text: str) -> str:
    """Return the text without secrets and without bytes that are no text."""
    return redacted(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def delivery(path: str, library: Optional[str], proc: str = "/proc") -> Delivery:
    """Compare the script with what it should be (``library`` None: no preload); else ``ScriptError``."""
    real = os.path.realpath(path)
    before = _read(real)
    result = Delivery(path, real, before, before)
    _decide(result, library)
    processes = list(started_by(real, proc))
    result.in_use = bool(processes)
    result.bypassed = not processes and any(map(_is_server, dict(_processes(proc)).values()))
    result.restart_required = any(_stale(pid, result, proc) for pid in processes)
    return result


def _decide(result: Delivery, library: Optional[str]) -> None:
    try:
        script = inspect(result.before)
    except ScriptError:
        if library is not None or not _nothing_to_remove(result):
            raise
        return
    result.family, result.hand_edits = script.family, list(script.hand_edits)
    if library is None:
        result.after = unpatched(result.before)
        return
    result.adopted = adopted(script, library, os.path.realpath)
    result.after = patched(result.before, library, os.path.realpath)


def _nothing_to_remove(result: Delivery) -> bool:
    """Take our block out of a script that is not understood any more; False if a hand-made one may be there."""
    result.after = without_block(result.before)
    code = (line for line in result.after.split("\n") if not line.lstrip().startswith("#"))
    return not any("LD_PRELOAD=" in line for line in code)


def _read(real: str) -> str:
    try:
        with open(real, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except OSError as error:
        raise ScriptError(
            "not_found", f"it cannot be read ({error.strerror}). Set path to the script"
        ) from error


def _stale(pid: int, wanted: Delivery, proc: str) -> bool:
    """Compare a server's preload with the script's: what it inherited from elsewhere does not count."""
    try:
        running = split_preload(process_environment(pid, proc).get("LD_PRELOAD", ""))
    except OSError:
        return False
    new = configured_preload(wanted.after)["paths"]
    old = configured_preload(wanted.before)["paths"]
    return any(path not in running for path in new) or any(path in running for path in old if path not in new)


def started_by(real_path: str, proc: str = "/proc") -> Iterator[int]:
    """Yield the pids of servers whose ancestor is a shell that runs this script."""
    processes = dict(_processes(proc))
    for pid in processes:
        if _is_server(processes[pid]) and any(
            word.startswith("/") and os.path.realpath(word) == real_path
            for ancestor in _ancestors(pid, processes)
            for word in processes[ancestor][1][:3]
        ):
            yield pid


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
