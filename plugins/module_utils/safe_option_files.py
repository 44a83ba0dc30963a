# SPDX-License-Identifier: GPL-3.0-or-later
"""Which option files a mysqld_safe script reads on this host, and which one is the place for our malloc-lib."""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import option_file
from .mysqld_safe import ScriptError
from .option_file import arguments, files, include_directories, tops

OWN_NAME = "zz-fleet-mysqltune.cnf"


class Runner(NamedTuple):
    """How a script runs, or would: its command line, the environment that it leaves to the server, base and data directories."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    basedir: str
    datadirs: Tuple[str, ...]

    @property
    def tops(self) -> List[str]:
        """The option files that it looks for by itself."""
        return tops(self.argv, self.basedir, self.environ)

    @property
    def files(self) -> List[str]:
        """The option files that it reads."""
        return files(self.argv, self.basedir, self.environ)

    @property
    def my_cnf_in_datadir(self) -> bool:
        return any(os.path.exists(os.path.join(path, "my.cnf")) for path in self.datadirs)


def idle(script: str) -> Runner:
    """Return how a script would run that nobody has started: installed in BASEDIR/bin, without arguments."""
    basedir = os.path.dirname(os.path.dirname(script))
    return Runner([], {"MYSQL_HOME": basedir}, basedir, _datadirs(basedir))


def started(script: str, argv: Sequence[str], server: Sequence[str], environ: Mapping[str, str]) -> Runner:
    """Return how a script runs, from its own command line and what it left to its server."""
    given = arguments(server)
    basedir = given.get("basedir") or os.path.dirname(os.path.dirname(script))
    return Runner(argv, environ, basedir, (*filter(None, [given.get("datadir")]), *_datadirs(basedir)))


def _datadirs(basedir: str) -> Tuple[str, ...]:
    """Return where scripts suppose the data before they have read any option."""
    return os.path.join(basedir, "data"), os.path.join(basedir, "var")


def texts(runners: Sequence[Runner]) -> Dict[str, str]:
    """Return the text of every option file that is read, byte for byte, by its real path."""
    found = {}
    for path in dict.fromkeys(os.path.realpath(path) for runner in runners for path in runner.files):
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            found[path] = stream.read()
    return found


def places(runners: Sequence[Runner], named: Optional[str]) -> List[str]:
    """Return the files for our block: the one that was named, or one for each runner; ``ScriptError`` if it is not read."""
    for runner in runners:
        if not runner.tops:
            raise ScriptError("launcher_mismatch", "it runs with --no-defaults and reads no option file")
        if named and not _read(runner, named):
            raise ScriptError(
                "launcher_mismatch",
                f"it does not read {named}. Leave option_file out, or name one of what it reads: "
                f"{', '.join(runner.files) or ', '.join(runner.tops)}",
            )
    chosen = [named] if named else [_place(runner) for runner in runners]
    return list(dict.fromkeys(map(os.path.realpath, chosen)))


def _read(runner: Runner, path: str) -> bool:
    """Tell whether a file is read, or would be if it were there."""
    real = os.path.realpath(path)
    if real in map(os.path.realpath, [*runner.tops, *runner.files]):
        return True
    directories = [os.path.realpath(one) for top in runner.tops for one in include_directories(top)]
    return real.endswith(".cnf") and os.path.dirname(real) in directories


def _place(runner: Runner) -> str:
    """Prefer a file of our own in the directory that is read last; else the main file, which may have to be made."""
    given = arguments(runner.argv).get("defaults-file")
    main = [str(given)] if given else list(option_file.GLOBAL_FILES)
    directories = [one for top in main for one in include_directories(top)]
    if directories:
        return os.path.join(directories[-1], OWN_NAME)
    present = [path for path in main if os.path.exists(path)]
    return (present or main[:1])[-1]
