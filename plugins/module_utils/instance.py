# SPDX-License-Identifier: GPL-3.0-or-later
"""One server, running or stopped, as ``mysqld_info`` shows it."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import malloc_lib, mysqld_safe, processes, systemd_env, topology
from .allocators import classify
from .command import Run
from .command import run as run_command
from .evidence import INTENDED, allocator_name, collect, environment, judge, soname_of
from .launcher import Unit, ancestry, determine, nothing
from .option_file import arguments, files, options, read, redacted, sections
from .servers import arguments as process_arguments
from .sql import Row, Sql, SqlError, find_client

SELF = (
    "SELECT @@version AS version, @@version_comment AS comment, @@datadir AS datadir, @@socket AS socket, "
    "@@port AS port"
)
TIMEOUT = 10.0


class Asked(NamedTuple):
    """What the caller wants, and by which means it is looked up."""

    defaults_file: Optional[str] = None
    topology: bool = True
    proc: str = "/proc"
    run: Run = run_command


class Answers(NamedTuple):
    """What a server said of itself by SQL; empty with ``error`` if it was not reached."""

    own: Row
    topology: Dict[str, Any]
    error: Optional[str]


def running(pid: int, unit: Optional[Unit], asked: Asked) -> Dict[str, Any]:
    """Observe the server with this pid; ``unit`` is that of its control group."""
    proc = asked.proc
    evidence = collect(pid, proc)
    argv = process_arguments(pid, proc)
    paths = files(argv, _basedir(argv, evidence["exe"]), environment(pid, proc))
    given = {**options(paths, sections()), **arguments(argv)}
    socket = _socket(pid, given, proc)
    client = find_client(evidence["exe"])
    answers = ask(Sql(client.path, socket, asked.defaults_file, run=asked.run), client.tried, asked.topology)
    launcher = determine(ancestry(pid, proc), unit, proc)
    flavour, version = _identity(answers.own, evidence["exe"], asked.run)
    datadir = _directory(answers.own.get("datadir") or given.get("datadir") or _cwd(pid, proc))
    facts = processes.facts(pid, proc)
    return {
        "name": launcher["unit"] if launcher["kind"] == "systemd" else datadir,
        "pid": pid,
        "exe": evidence["exe"],
        "argv": redacted(argv),
        "flavour": flavour,
        "version": version,
        "bits": evidence["bits"],
        "machine": evidence["machine"],
        "secure_exec": evidence["secure_exec"],
        "launcher": launcher,
        "datadir": datadir,
        "socket": socket or answers.own.get("socket"),
        "port": _port(answers.own.get("port") or given.get("port")),
        "option_files": paths,
        "sql": {"client": client.path, "reachable": answers.error is None, "error": answers.error},
        "allocator": allocator(evidence, configured(launcher, asked.run, paths), facts["confinement"]),
        "topology": answers.topology,
        **facts,
    }


def stopped(unit: Unit, asked: Asked) -> Dict[str, Any]:
    """Describe a server that does not run, but that ``unit`` would start."""
    launcher = dict(nothing("stopped"), unit=unit.name, init_script=unit.init_script)
    nobody: Dict[str, Any] = {
        **dict.fromkeys(("exe", "bits", "machine", "error")),
        **{key: [] for key in ("mapped", "deleted")},
        **{key: {} for key in ("resolved", "problems", "variables")},
        "environ": "",
        "linked": None,
        "bound": {"malloc": None, "free": None},
        "secure_exec": False,
    }
    return {
        "name": unit.name,
        **dict.fromkeys(("pid", "user", "flavour", "version", "bits", "machine", "started")),
        **dict.fromkeys(("datadir", "socket", "port")),
        "exe": unit.program,
        "argv": [],
        "secure_exec": False,
        "launcher": launcher,
        "option_files": [],
        "sql": {"client": None, "reachable": False, "error": "the server is stopped"},
        "allocator": dict(
            allocator(nobody, configured(launcher, asked.run), ""), level=INTENDED, reason="stopped"
        ),
        "memory": dict.fromkeys(("rss", "pss", "anon_huge_pages")),
        "confinement": None,
        "topology": topology.unknown("the server is stopped"),
    }


class Wanted(NamedTuple):
    """What the launcher's files would preload: ``shown`` in the result; ``own``, the entry that is ours."""

    shown: Dict[str, Any]
    own: Optional[str]


def allocator(evidence: Mapping[str, Any], wanted: Wanted, confinement: str) -> Dict[str, Any]:
    """Join what the process proves with what its next start would preload, and judge it by that."""
    own = ("environ", "variables", "mapped", "deleted", "linked", "bound", "resolved", "problems", "error")
    facts = {**evidence, **wanted.shown, "confinement": confinement}
    preloaded = [path for path in wanted.shown["configured"] if _is_allocator(path, evidence)]
    level, reason = judge(facts, preloaded[0] if preloaded else wanted.own)
    return {
        "name": allocator_name(evidence),
        "path": evidence["bound"].get("malloc"),
        **wanted.shown,
        **{key: evidence[key] for key in own},
        "level": level,
        "reason": reason,
    }


def _is_allocator(path: str, evidence: Mapping[str, Any]) -> bool:
    """Tell a preloaded allocator from other people's preloads."""
    if classify(path) or classify(soname_of(path) or ""):
        return True
    return evidence["resolved"].get(path, path) in evidence["bound"].values()


def configured(launcher: Mapping[str, Any], run: Run, option_files: Sequence[str] = ()) -> Wanted:
    """Look up what the launcher's files preload. Our entry is the first in a script, the last in a unit.

    A script hands its ``--defaults-file`` on, so that it has read the same ``option_files`` as its server.
    """
    found: List[Mapping[str, Any]] = []
    own: Optional[str] = None
    if launcher["unit"] and launcher["kind"] != "masked":
        found.append(systemd_env.configured_preload(launcher["unit"], run))
        own = _own(found[0], -1)
    malloc_libs: List[Mapping[str, Any]] = []
    if launcher["script"]:
        script = read(launcher["script"]) or ""
        texts = {path: read(path) or "" for path in dict.fromkeys(map(os.path.realpath, option_files))}
        found[:0] = [mysqld_safe.configured_preload(script), malloc_lib.configured_preload(script, texts)]
        own = _own(found[0], 0) or _own(found[1], 0) or own
        malloc_libs = found[1]["malloc_libs"]
    shown = {
        "configured": list(dict.fromkeys(path for one in found for path in one["paths"])),
        "managed": any(one["managed"] for one in found),
        "adopted": any(one.get("adopted") for one in found),
        "malloc_libs": malloc_libs,
        "overridden_by": [path for one in found for path in one.get("overridden_by") or []],
        "configured_variables": _joined(found, "variables"),
        "own_variables": _joined(found, "own_variables"),
    }
    return Wanted(shown, own)


def _joined(found: Sequence[Mapping[str, Any]], key: str) -> Dict[str, str]:
    """Join variables: what a script sets beats what its unit sets."""
    return {name: value for one in reversed(found) for name, value in (one.get(key) or {}).items()}


def _own(preload: Mapping[str, Any], place: int) -> Optional[str]:
    return str(preload["paths"][place]) if preload["managed"] and preload["paths"] else None


def ask(sql: Sql, tried: Sequence[str], about_others: bool) -> Answers:
    """Ask a server what it is, in one connection."""
    if not sql.client:
        error = f"no client program was found (tried {', '.join(tried)}). Install one."
        return Answers({}, topology.unknown(error), error)
    statements = topology.STATEMENTS if about_others else {}
    try:
        own, *rest = sql.batch([SELF, *statements.values()], TIMEOUT)
    except SqlError as error:
        return Answers({}, topology.unknown(error.message), error.message)
    if isinstance(own, SqlError) or not own:
        error_text = own.message if isinstance(own, SqlError) else "the server gave no answer"
        return Answers({}, topology.unknown(error_text), error_text)
    if not about_others:
        return Answers(own[0], topology.unknown("not asked (topology: false)"), None)
    return Answers(own[0], topology.understand(dict(zip(statements, rest))), None)


def _identity(own: Mapping[str, str], exe: str, run: Run) -> Tuple[Optional[str], Optional[str]]:
    if own:
        return identity(f"{own['version']} ({own['comment']})")
    return identity(run([exe, "--no-defaults", "--version"], timeout=10).out)


def identity(text: str) -> Tuple[Optional[str], Optional[str]]:
    """Return flavour and version from ``@@version`` and its comment, or from ``mysqld --version``."""
    match = re.search(r"(?:Ver )?(\d+\.\d+\.\d+)", text)
    if not match:
        return None, None
    lower = text.lower()
    flavour = "mariadb" if "mariadb" in lower else "percona" if "percona" in lower else "mysql"
    return flavour, match.group(1)


def _basedir(argv: Sequence[str], exe: str) -> str:
    return arguments(argv).get("basedir") or os.path.dirname(os.path.dirname(exe))


def _socket(pid: int, given: Mapping[str, Optional[str]], proc: str) -> Optional[str]:
    """Return the socket to ask through: one that the process listens on, best the configured one."""
    wanted = given.get("socket")
    listening = [path for path in processes.sockets(pid, proc) if "mysqlx" not in os.path.basename(path)]
    if wanted and (wanted in listening or not listening):
        return wanted
    first = next(iter(listening), None)
    return os.path.join(_cwd(pid, proc), first) if first else None


def _cwd(pid: int, proc: str) -> str:
    return processes.working_directory(pid, proc) or "/"


def _directory(path: str) -> str:
    return os.path.normpath(path)


def _port(value: Optional[str]) -> Optional[int]:
    return int(value) if value and value.isdigit() else None
