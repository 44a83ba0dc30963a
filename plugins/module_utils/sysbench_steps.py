# SPDX-License-Identifier: GPL-3.0-or-later
"""The four steps of a benchmark on a host: prepare, begin (a run), result, cleanup."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from . import sysbench_account as account
from . import sysbench_run as runner
from .command import Run
from .durable import write_json
from .sysbench import (
    Settings,
    SysbenchError,
    arguments,
    check_settings,
    check_space,
    config_text,
    first_error,
    outer_timeout,
    slug,
    usable_cpus,
    words,
    write_private,
)
from .sysbench_report import parse
from .sysbench_verdict import Asked, judge, remarks, spread

CONFIG, PARSED = "sysbench.cnf", "sysbench.json"
PREPARE_TIMEOUT = 3600.0


class Target(NamedTuple):
    """The instance to be measured and where things are kept; ``socket`` wins over ``host`` and ``port``."""

    instance: str
    phase: str
    root: str
    run_id: Optional[str] = None
    socket: Optional[str] = None
    host: str = "127.0.0.1"
    port: int = 3306
    names: account.Names = account.Names()

    @property
    def work(self) -> str:
        return os.path.join(self.root, "sysbench", slug(self.instance))

    @property
    def config(self) -> str:
        return os.path.join(self.work, CONFIG)

    @property
    def results(self) -> str:
        base = (
            os.path.join(self.root, "runs", self.run_id, "sysbench")
            if self.run_id
            else os.path.dirname(self.work)
        )
        return os.path.join(base, slug(self.instance), slug(self.phase))


class Binary(NamedTuple):
    """The sysbench that is used."""

    path: str
    version: str


def prepare(
    target: Target,
    settings: Settings,
    binary: Binary,
    sql: Any,
    run: Run,
    refuse: Callable[[], None] = lambda: None,
) -> Dict[str, Any]:
    """Own schema, account and tables, or SysbenchError with nothing left behind.

    ``refuse`` raises SysbenchError if the server must not be measured now.
    """
    check_settings(settings)
    names = account.checked(target.names)
    state = account.look(sql, names)
    account.refuse_foreign(state, names)
    space = check_space(settings, state.datadir, state.binlog)
    _end_leftover(target)
    refuse()
    leftover = account.drop(sql, names, state)
    try:
        _fill(target, settings, binary, sql, run)
    except BaseException:
        cleanup(target, sql)
        raise
    return {"leftover_removed": leftover, "space_needed": space.needed, "space_free": space.free}


def _end_leftover(target: Target) -> None:
    busy = runner.running(target.work)
    if busy and not target.run_id:
        raise SysbenchError(
            f"a benchmark of {target.instance} is running (pid {busy['pid']}): wait for its end"
        )
    runner.stop(target.work)


def _fill(target: Target, settings: Settings, binary: Binary, sql: Any, run: Run) -> None:
    names, password = target.names, account.new_password()
    for directory in (target.root, os.path.dirname(target.work), target.work):
        os.makedirs(directory, mode=0o700, exist_ok=True)
    write_private(target.config, config_text(connection(target, password)))
    account.create(sql, names, password, account.look(sql, names))
    done = run(_command_line(settings, "prepare", target, binary), timeout=PREPARE_TIMEOUT)
    if done.rc != 0:
        said = first_error(done.out) or first_error(done.err) or done.err.strip() or done.out.strip()[-300:]
        raise SysbenchError(f"sysbench prepare failed with code {done.rc}: {said}")
    _check_rows(account.row_counts(sql, names, settings.tables), settings)


def _command_line(settings: Settings, command: str, target: Target, binary: Binary) -> List[str]:
    if command == "prepare":
        settings = settings._replace(threads=min(settings.tables, settings.threads))
    line = arguments(settings, command, target.config)
    return [binary.path, *line[1:]]


def _check_rows(counts: List[int], settings: Settings) -> None:
    if counts != [settings.table_size] * settings.tables:
        raise SysbenchError(
            f"sysbench prepare made {sum(counts)} rows in {len(counts)} tables instead of "
            f"{settings.tables} × {settings.table_size}"
        )


def connection(target: Target, password: str) -> Dict[str, str]:
    """The options of sysbench's config file."""
    where = {"mysql-socket": target.socket} if target.socket else {"mysql-host": target.host}
    if not target.socket:
        where["mysql-port"] = str(target.port)
    own = {"mysql-user": target.names.account, "mysql-password": password, "mysql-db": target.names.schema}
    return {"db-driver": "mysql", **where, **own}


def job(target: Target, settings: Settings, binary: Binary) -> runner.Job:
    """The run as a job for the supervisor."""
    line = arguments(settings, "run", target.config)
    return runner.Job(line, binary.path, target.work, target.results, float(outer_timeout(settings)))


def begin(
    todo: runner.Job, target: Target, settings: Settings, renew: Optional[Callable[[], None]]
) -> Dict[str, Any]:
    """Start the run; SysbenchError if it could not be started."""
    check_settings(settings)
    if not os.path.exists(target.config):
        raise SysbenchError(f"nothing is prepared for {target.instance}: call the command prepare first")
    busy = runner.running(target.work)
    if busy:
        raise SysbenchError(
            f"a benchmark of {target.instance} is running (pid {busy['pid']}): wait for its end"
        )
    state = runner.start(todo, renew)
    if state is None or state.get("error"):
        raise SysbenchError(f"sysbench could not be started: {state['error'] if state else 'no answer'}")
    return state


def result(todo: runner.Job, target: Target, settings: Settings, binary: Binary) -> Dict[str, Any]:
    """Wait for the end, parse and judge; the same dict is kept as ``sysbench.json`` beside the raw text."""
    ended = runner.wait_for_end(todo)
    reports = parse(_text(todo.raw))
    asked = Asked(float(settings.duration), settings.events, ended.get("killed_after"))
    verdict = judge(reports, int(ended["rc"]), asked)
    last: Dict[str, Any] = reports[-1] if reports else {"intervals": [], "errors": [], "warnings": []}
    within = spread(last["intervals"])
    facts = {
        "instance": target.instance,
        "phase": target.phase,
        "test": settings.test,
        "artifact": f"{slug(target.phase)}/{slug(target.instance)}/{runner.RAW}",
        "valid": verdict.valid,
        "reason": verdict.reason,
        "message": verdict.message,
        "spread": within,
        "remarks": remarks(last, within) if verdict.valid else [],
        "command": words(todo.argv),
        "asked": _asked(settings),
        "sysbench": binary.version,
        "cpus": usable_cpus(),
    }
    outcome = dict(last, **facts, **{key: ended.get(key) for key in _ENDED})
    write_json(os.path.join(todo.results, PARSED), outcome)
    return outcome


_ENDED = ("rc", "started", "ended", "killed_after", "client_cpu_s", "supervisor_cpu_s")


def _asked(settings: Settings) -> Dict[str, Any]:
    keys = ("threads", "duration", "events", "tables", "table_size", "seed")
    return dict({key: getattr(settings, key) for key in keys}, extra_options=list(settings.extra))


def _text(path: str) -> str:
    try:
        with open(path, errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def cleanup(target: Target, sql: Any) -> bool:
    """Take away process, config file, schema and account if they are ours; False if there was nothing."""
    stopped = runner.stop(target.work)
    removed = os.path.lexists(target.config)
    for path in (target.config, os.path.join(target.work, runner.RUNNING)):
        if os.path.lexists(path):
            os.unlink(path)
    for directory in (target.work, os.path.dirname(target.work)):
        if os.path.isdir(directory) and not os.listdir(directory):
            os.rmdir(directory)
    names = account.checked(target.names)
    dropped = account.drop(sql, names, account.look(sql, names))
    return stopped or removed or dropped
