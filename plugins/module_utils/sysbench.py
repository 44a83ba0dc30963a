# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of sysbench 1.0: version, options, config file with the password, space needed."""

from __future__ import annotations

import os
import re
import shutil
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .command import Run

SUPPORTED = "1.0"
GRACE = 10  # seconds after the requested time until sysbench forces its own end, with a report
OUTER = 60  # seconds after that until it is killed
ROW_BYTES = 250  # one row of sbtest in InnoDB, its secondary index included
GROWTH = 2.0  # page fill, undo and redo during the run
FIXED_BYTES = 64 << 20
BINLOG_BYTES = 256 << 20  # reserve for the binary log of the run itself
_VERSION = re.compile(r"sysbench (\d+(?:\.\d+)*)")
_OWNED = re.compile(
    r"--(config-file|threads|num-threads|time|max-time|events|max-requests|tables|table-size|report-interval"
    r"|forced-shutdown|verbosity|db-driver|debug|test|mysql-(?!ignore-errors|storage-engine|table-options)[a-z-]+)(=|$)"
)
_OPTION = re.compile(r"--[a-z][a-z0-9_-]*(=\S*)?$")
_TEST = re.compile(r"[A-Za-z0-9_./-]+$")


class SysbenchError(Exception):
    """One sentence for the user that names what is wrong and what to do."""


class Settings(NamedTuple):
    """A test as asked for: times in s, 0 ``events`` means no limit, ``extra`` as typed."""

    test: str
    threads: int
    duration: int
    events: int
    tables: int
    table_size: int
    seed: int = 1
    interval: int = 1
    grace: int = GRACE
    extra: Tuple[str, ...] = ()


def find_binary(name: str, run: Run) -> Tuple[str, str]:
    """(path, version) of the sysbench to be used; SysbenchError if it is missing or of another generation."""
    path = shutil.which(name)
    if not path:
        raise SysbenchError(
            f"{name} is not installed on the host (not in PATH): install the package sysbench"
        )
    said = run([path, "--version"], timeout=15)
    found = _VERSION.search(said.out) or _VERSION.search(said.err)
    version = found.group(1) if found else "unknown"
    if not re.match(r"1\.0(\.|$)", version):
        raise SysbenchError(
            f"{path} is sysbench {version}; supported is {SUPPORTED} (any 1.0.x): "
            "install the sysbench package of the distribution or set sysbench_binary"
        )
    return path, version


def check_settings(settings: Settings) -> None:
    """SysbenchError if a value could not work or an extra option is one that the toolkit sets itself."""
    for name in ("threads", "tables", "table_size"):
        if getattr(settings, name) < 1:
            raise SysbenchError(f"{name} is {getattr(settings, name)}: it must be at least 1")
    if settings.duration < 1:
        raise SysbenchError(
            f"duration is {settings.duration}: a run needs at least 1 s (events can end it earlier)"
        )
    check_test(settings.test)
    for option in settings.extra:
        check_extra(option)


def check_test(test: str) -> None:
    """SysbenchError unless ``test`` can be the name of a test or the path of a script."""
    if not _TEST.match(test):
        raise SysbenchError(f"test is {test!r}: expected a name such as oltp_read_write or a path")


def check_extra(option: str) -> None:
    """SysbenchError unless ``option`` is one ``--name=value`` that is the user's to set."""
    if not _OPTION.match(option):
        raise SysbenchError(f"extra option {option!r}: expected --name=value without blanks")
    owned = _OWNED.match(option.replace("_", "-"))
    if owned:
        raise SysbenchError(
            f"extra option --{owned.group(1)} is set by the toolkit itself: use its own parameter"
        )
    if option.replace("_", "-").startswith("--mysql-ignore-errors=all"):
        raise SysbenchError(
            "--mysql-ignore-errors=all makes sysbench 1.0 crash on a lost connection: list the numbers"
        )


def arguments(settings: Settings, command: str, config: str) -> List[str]:
    """The command line as a user would type it; the password is in the file ``config`` only."""
    line = ["sysbench", settings.test, f"--config-file={config}", f"--threads={settings.threads}"]
    line += [f"--tables={settings.tables}", f"--table-size={settings.table_size}"]
    if command == "run":
        line += [f"--time={settings.duration}", f"--events={settings.events}"]
        line += [f"--report-interval={settings.interval}", f"--forced-shutdown={settings.grace}"]
    if not any(option.startswith("--rand-type") for option in settings.extra):
        line.append("--rand-type=uniform")  # the default differs between versions
    if settings.seed:
        line.append(f"--rand-seed={settings.seed}")
    return [*line, *settings.extra, command]


def outer_timeout(settings: Settings) -> int:
    """Seconds after which a run is killed."""
    return settings.duration + settings.grace + OUTER


def config_line(key: str, value: str) -> str:
    """``key=value`` for sysbench's config file; SysbenchError for a value that its format cannot carry.

    From sysbench's own reader: no blanks around ``=``; a value with a blank, a comma, a leading ``#`` or a
    leading quote must be quoted with the quote that it lacks; a line has less than 256 bytes.
    """
    special = re.search(r"[\s,]", value) or value[:1] in ("#", "'", '"')
    quote = next((mark for mark in ('"', "'") if mark not in value), None) if special else ""
    line = f"{key}={quote}{value}{quote}"
    if quote is None or "\n" in value or len(line.encode()) >= 255:
        raise SysbenchError(
            f"sysbench's config file cannot hold this value of {key} (quotes or length): change it"
        )
    return line


def config_text(options: Mapping[str, str]) -> str:
    """The whole config file; ``options`` in the order given."""
    return "".join(config_line(key, value) + "\n" for key, value in options.items())


def write_private(path: str, text: str) -> None:
    """Make ``path`` afresh with mode 0600, whatever was there and whatever the umask is."""
    if os.path.lexists(path):
        os.unlink(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)


class Space(NamedTuple):
    """Bytes needed and free in the file system of the data directory."""

    needed: int
    free: int


def space_needed(tables: int, table_size: int, binlog: bool) -> int:
    """Bytes that prepare and run may take; a binary log holds every row once more, and the run too."""
    rows = int(tables * table_size * ROW_BYTES * GROWTH)
    return rows + FIXED_BYTES + (rows + BINLOG_BYTES if binlog else 0)


def check_space(settings: Settings, datadir: str, binlog: bool) -> Space:
    """SysbenchError with the figures if the tables would not fit beside what is there."""
    stat = os.statvfs(datadir)
    space = Space(space_needed(settings.tables, settings.table_size, binlog), stat.f_bavail * stat.f_frsize)
    if space.needed > space.free:
        with_log = ", binary log included," if binlog else ""
        raise SysbenchError(
            f"no disk space for sysbench: {settings.tables} tables of {settings.table_size} rows need about "
            f"{mib(space.needed)}{with_log} and the file system of {datadir} has {mib(space.free)} free; "
            "lower sysbench_tables or sysbench_table_size, or make room"
        )
    return space


def mib(size: int) -> str:
    """``size`` in whole MiB."""
    return f"{size / (1 << 20):,.0f} MiB"


def usable_cpus() -> int:
    """CPUs that this process, and so sysbench, may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def slug(name: str) -> str:
    """A file name for an instance: ``/srv/db 1`` becomes ``srv-db-1``; never empty, no dot in front."""
    return re.sub(r"[^A-Za-z0-9._@-]+", "-", name).strip("-.") or "instance"


def words(line: Sequence[str]) -> str:
    """A command line for people to copy."""
    return " ".join(line)


def first_error(text: str) -> Optional[str]:
    """The first line of output that says what went wrong."""
    lines = [
        line
        for line in text.splitlines()
        if re.match(r"(FATAL|ALERT|ERROR|PANIC)|.*(invalid option|Cannot)", line)
    ]
    return lines[0] if lines else None
