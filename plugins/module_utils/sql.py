# SPDX-License-Identifier: GPL-3.0-or-later
"""The only SQL channel: the host's own client program, credentials from a file or socket authentication.

Statements go through stdin and no password is ever an argument.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .command import Completed, Run
from .command import run as run_command

Row = Dict[str, str]

CLIENTS = ("mariadb", "mysql")
_MARK = "fleet_mysqltune_mark"
_ERROR = re.compile(r"^ERROR (\d+)(?: \([0-9A-Z]+\))?(?: at line (\d+))?: (.*)", re.MULTILINE)
_DENIED = {1044, 1045, 1130, 1142, 1143, 1227, 1698, 3118, 4151}
_UNREACHABLE = range(2000, 2064)
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}


class SqlError(Exception):
    """Why a statement was not answered.

    ``kind`` is ``no_client``, ``cannot_connect``, ``access_denied``, ``timeout`` or ``statement``.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class Client(NamedTuple):
    """The client program that was found (None if there is none) and where it was looked for."""

    path: Optional[str]
    tried: List[str]


def find_client(exe: str, search: Optional[str] = None) -> Client:
    """Find a client for the daemon ``exe``: beside it, in ``bin`` next to that, then in PATH (``search``)."""
    beside = os.path.dirname(exe)
    directories = [beside, os.path.normpath(os.path.join(beside, "..", "bin"))]
    tried = [os.path.join(directory, name) for directory in directories for name in CLIENTS]
    for path in tried:
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return Client(path, tried)
    path = search or os.environ.get("PATH", "") + ":/usr/local/bin:/usr/bin:/usr/local/mysql/bin"
    found = next((known for known in (shutil.which(name, path=path) for name in CLIENTS) if known), None)
    return Client(found, [*tried, "PATH"])


class Sql:
    """Ask one server. Without ``defaults_file`` the client reads its usual files; root needs no password."""

    def __init__(
        self,
        client: Optional[str],
        socket: Optional[str] = None,
        defaults_file: Optional[str] = None,
        user: str = "root",
        run: Run = run_command,
    ) -> None:
        self.client, self.socket, self.defaults_file, self.user = client, socket, defaults_file, user
        self._run = run

    def query(self, statement: str, timeout: float = 10.0) -> List[Row]:
        """Run one statement and return its rows as texts; NULL is ``NULL``. Raises ``SqlError``."""
        answer = self.batch([statement], timeout)[0]
        if isinstance(answer, SqlError):
            raise answer
        return answer

    def batch(self, statements: Sequence[str], timeout: float = 10.0) -> List[Union[List[Row], SqlError]]:
        """Run statements in one connection: rows or the statement's own error for each.

        Raises ``SqlError`` when the server was not reached at all.
        """
        done = self._run(self.argv(timeout), timeout=timeout, stdin=script(statements))
        errors = {line: _error(code, text) for code, line, text in _errors(done.err)}
        general = errors.pop(0, None) or _failure(done, errors)
        if general:
            raise SqlError(general.kind, self._tell(general.message, timeout))
        blocks = split(done.out, len(statements))
        return [errors.get(2 * number + 1, rows) for number, rows in enumerate(blocks)]

    def argv(self, timeout: float) -> List[str]:
        """Return the client's command line; it never has a password. Raises ``SqlError`` without a client."""
        if not self.client:
            raise SqlError("no_client", "no mariadb or mysql client program is on this host. Install one.")
        files = [f"--defaults-file={self.defaults_file}"] if self.defaults_file else []
        user = [f"--user={self.user}"] if not self.defaults_file and self.user != "root" else []
        place = [f"--socket={self.socket}", "--protocol=socket"] if self.socket else []
        wait = f"--connect-timeout={max(1, int(timeout))}"
        fixed = ["--batch", "--column-names", "--force", "--no-auto-rehash", wait]
        return [self.client, *files, *fixed, *user, *place]

    def _tell(self, message: str, timeout: float) -> str:
        where = f"socket {self.socket}" if self.socket else "the default socket"
        file = self.defaults_file
        account = f"the account of {file}" if file else f"socket authentication as {self.user}"
        return f"{self.client} through {where} with {account}: {message or f'no answer within {timeout:g} s'}"


def script(statements: Sequence[str]) -> str:
    """Return the client's input: one line per statement, each followed by a mark between the answers."""
    lines = []
    for number, statement in enumerate(statements):
        lines += [" ".join(statement.split("\n")).rstrip("; ") + ";", f"SELECT '{number}' AS {_MARK};"]
    return "\n".join(lines) + "\n"


def split(output: str, count: int) -> List[List[Row]]:
    """Split the client's tabular output at the marks into the rows of ``count`` statements."""
    blocks: List[List[str]] = [[]]
    lines = iter(output.split("\n"))
    for line in lines:
        if line == _MARK:
            next(lines, "")
            blocks.append([])
        elif line:
            blocks[-1].append(line)
    blocks += [[]] * count
    return [parse(block) for block in blocks[:count]]


def parse(lines: Sequence[str]) -> List[Row]:
    """Parse a table of ``--batch``: a line of names, then tab-separated rows with backslash escapes."""
    if not lines:
        return []
    names = lines[0].split("\t")
    return [dict(zip(names, map(_unescape, line.split("\t")))) for line in lines[1:]]


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(0)), text)


def _errors(err: str) -> List[Tuple[int, int, str]]:
    return [(int(code), int(line or 0), text) for code, line, text in _ERROR.findall(err)]


def _error(code: int, text: str) -> SqlError:
    kind = "access_denied" if code in _DENIED else "cannot_connect" if code in _UNREACHABLE else "statement"
    return SqlError(kind, f"ERROR {code}: {text}")


def _failure(done: Completed, errors: Mapping[int, SqlError]) -> Optional[SqlError]:
    """Return why the client ended early, None if it did its work, single statements' errors or not."""
    if done.rc == 124:
        return SqlError("timeout", "")
    lost = next((error for error in errors.values() if error.kind == "cannot_connect"), None)
    if lost or done.rc == 0 or errors:
        return lost
    text = done.err.strip().splitlines()
    kind = "no_client" if done.rc == 127 else "cannot_connect"
    return SqlError(kind, text[-1] if text else f"rc {done.rc}")
