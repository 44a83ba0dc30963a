# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that committed runs left on a host, and what has become of them. Read only."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping

from .durable import FileState, read_state
from .lease import STATE_ROOT
from .mysqld_safe import ScriptError, find_block, inspect
from .redaction import redacted
from .runlog import left_files

Record = Dict[str, Any]


def managed_files(root: str = STATE_ROOT) -> List[Record]:
    """Return each file as ``path``, ``run_id``, ``kind``, ``state``, ``mode``, ``block`` and ``content``.

    ``state`` is ``as_left``, ``changed``, ``gone``, or ``unreadable``. A script or an option file in which only a block
    is ours has ``block``: whether it is (still) there. A file that is ours as a whole has its ``content``, secrets masked.
    """
    return [_managed(left) for left in left_files(root)]


def _managed(left: Mapping[str, Any]) -> Record:
    record = {key: left[key] for key in ("path", "run_id", "kind")}
    record.update(mode=None, block=None, content=None)
    try:
        now = read_state(left["path"])
    except OSError:
        return dict(record, state="unreadable")
    if now is None:
        return dict(record, state="as_left" if left["sha256"] is None else "gone", block=_block(left, b""))
    state = "as_left" if now.sha256 == left["sha256"] else "changed"
    return dict(
        record,
        state=state,
        mode=f"{now.mode:04o}",
        block=_block(left, now.content),
        content=_content(left, now),
    )


def _block(left: Mapping[str, Any], content: bytes) -> Any:
    text = content.decode("utf-8", "surrogateescape")
    try:
        if left["kind"] == "mysqld_safe":
            return inspect(text).block is not None
        return find_block(text.split("\n")) is not None if left["kind"] == "option_file" else None
    except ScriptError:
        return False


def _content(left: Mapping[str, Any], now: FileState) -> Any:
    return None if left["kind"] else redacted(now.content.decode("utf-8", "replace"))


def concerns(managed: Mapping[str, Any], launcher: Mapping[str, Any]) -> bool:
    """Tell whether a file belongs to the server of this launcher; an option file does to all that mysqld_safe starts."""
    path, unit = str(managed["path"]), launcher["unit"]
    if managed["kind"] == "option_file":
        return bool(launcher["script"])
    if managed["kind"] == "mysqld_safe":
        return bool(launcher["script"]) and path == os.path.realpath(launcher["script"])
    return bool(unit) and (f"/{unit}.d/" in path or os.path.basename(path) == f"{unit}.env")
