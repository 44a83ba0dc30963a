# SPDX-License-Identifier: GPL-3.0-or-later
"""A mysqld_safe script with the option files that it reads: as they are, and as they should be."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

from . import malloc_lib
from .mysqld_safe import HandEdit, ScriptError, configured_preload
from .option_file import masked
from .redaction import redacted
from .safe_option_files import Runner


class Wanted(NamedTuple):
    """What the server has to get, nothing for ``absent``, and how: ``patch``, ``malloc_lib`` or ``auto``."""

    library: Optional[str] = None
    environment: Mapping[str, str] = {}
    method: str = "patch"
    option_file: Optional[str] = None


class Change(NamedTuple):
    """A file as it is and as it should be; None: absent. ``kind`` is that of the journal."""

    path: str
    kind: str
    before: Optional[str]
    after: Optional[str]

    @property
    def diff(self) -> Dict[str, str]:
        show = masked if self.kind == "option_file" else str
        return {
            "before_header": self.path,
            "after_header": self.path,
            "before": _printable(show(self.before or "")),
            "after": _printable(show(self.after or "")),
        }


@dataclass
class Delivery:
    """The script as it is and as it should be, and the same for the option files that it reads.

    ``in_use``: a running server was started by it; ``bypassed``: servers run, and all were started otherwise.
    """

    path: str
    real_path: str
    before: str
    after: str
    runners: Sequence[Runner] = ()
    options_before: Dict[str, str] = field(default_factory=dict)
    options_after: Dict[str, Optional[str]] = field(default_factory=dict)
    family: str = ""
    method: Optional[str] = None
    method_reason: str = ""
    adopted: bool = False
    hand_edits: List[HandEdit] = field(default_factory=list)
    in_use: bool = False
    bypassed: bool = False
    restart_required: bool = False

    @property
    def changes(self) -> List[Change]:
        """The files that have to change, the script first."""
        script = Change(self.real_path, "mysqld_safe", self.before, self.after)
        files = [
            Change(path, "option_file", self.options_before.get(path), after)
            for path, after in self.options_after.items()
        ]
        return [change for change in [script, *files] if change.before != change.after]

    @property
    def changed(self) -> bool:
        return bool(self.changes)

    @property
    def diff(self) -> Any:
        found = [change.diff for change in self.changes]
        script = Change(self.real_path, "mysqld_safe", self.before, self.after)
        return found if len(found) > 1 else (found or [script.diff])[0]

    def found(self, after: bool = False) -> List[malloc_lib.Found]:
        """Return what the option files have the script preload."""
        options = {**self.options_before, **(self.options_after if after else {})}
        script = self.after if after else self.before
        return malloc_lib.found(script, {path: text for path, text in options.items() if text is not None})

    def given(self, after: bool = False) -> Set[Any]:
        """Return the libraries, by their real paths, and the variables that the script gives its server."""
        script = configured_preload(self.after if after else self.before)
        native = (one.library for one in self.found(after))
        return {*map(os.path.realpath, [*script["paths"], *native]), *script["variables"].items()}

    def facts(self) -> Dict[str, Any]:
        """Return what the module returns beside ``changed`` and ``diff``."""
        script, native = configured_preload(self.after), self.found(after=True)
        return {
            "path": self.path,
            "real_path": self.real_path,
            "family": self.family,
            "method": self.method,
            "method_reason": self.method_reason,
            "preload": list(dict.fromkeys([*script["paths"], *(one.library for one in native)])),
            "environment": script["variables"],
            "option_files": [one.file for one in native if one.ours],
            "files": [change.path for change in self.changes],
            "adopted": self.adopted,
            "hand_edits": [{"line": edit.line, "text": _printable(edit.text)} for edit in self.hand_edits],
            "in_use": self.in_use,
            "restart_required": self.restart_required,
            "overridden_by": [],
        }


def _printable(text: str) -> str:
    """Return the text without secrets and without bytes that are no text."""
    return redacted(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def read_exactly(real: str) -> str:
    """Return the text of a file, byte for byte; ``ScriptError`` if it cannot be read."""
    try:
        with open(real, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except OSError as error:
        raise ScriptError(
            "not_found", f"it cannot be read ({error.strerror}). Set path to the script"
        ) from error
