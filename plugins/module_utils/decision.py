# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what undoing means for one file, from what was there, what a run left, and what is there now. Pure."""

from __future__ import annotations

from typing import Callable, Dict, NamedTuple, Optional

from .durable import FileState
from .runlog import Change, Image, Setting


def _without_mysqld_safe_block(text: str) -> str:
    from .mysqld_safe import unpatched

    return unpatched(text)


def _without_option_file_block(text: str) -> str:
    from .mysqld_safe import without_block

    return without_block(text)


KINDS: Dict[str, Callable[[str], str]] = {
    "mysqld_safe": _without_mysqld_safe_block,
    "option_file": _without_option_file_block,
}
"""How our part is taken out of a file of somebody else's, by the ``kind`` given to ``Journal.write``."""


class Step(NamedTuple):
    """What undoing means for one file. ``action`` is ``none``, ``write``, ``remove`` or ``refuse``."""

    action: str
    words: str
    state: Optional[FileState] = None


def decide(change: Change, current: Optional[FileState], before: Optional[FileState]) -> Step:
    """Compare the file with what was there before and with what the run left: what has to be done? Pure."""
    content = current.sha256 if current else None
    left = [image for image in change.ours if image.sha256 == content]
    if content != change.before.sha256 and not left:
        return _foreign(change, current)
    if before is None:
        return (
            Step("remove", "removed: it did not exist before")
            if current
            else Step("none", "was gone already")
        )
    wanted = _keep_foreign_metadata(current, before, left[-1] if left else change.before)
    if wanted == current:
        return Step("none", "was as before already")
    return Step("write", "put back as it was before", wanted)


def decide_value(setting: Setting, current: str) -> Step:
    """Compare a value of the running kernel with the one before and those that the run set. Pure."""
    if current == setting.before:
        return Step("none", "was as before already")
    if current in setting.ours:
        return Step("write", f"set back from {current} to {setting.before}")
    words = f"was set to {current} by somebody else after this run; it was left so. It was {setting.before}"
    return Step("refuse", words)


def _keep_foreign_metadata(current: Optional[FileState], before: FileState, left: Image) -> FileState:
    """Return ``before`` with the mode and the owner that somebody else gave the file after the run."""
    if current is None:
        return before
    wanted = before
    for name in ("mode", "uid", "gid"):
        if getattr(current, name) not in (getattr(left, name), getattr(before, name)):
            wanted = wanted._replace(**{name: getattr(current, name)})
    return wanted


def _foreign(change: Change, current: Optional[FileState]) -> Step:
    """Somebody else changed the file after us: take only our part out of it, or leave it alone."""
    if current is None:
        return Step("refuse", "was removed by somebody else after this run; it was left so")
    rest = _without_our_part(change.kind, current.content)
    if rest == current.content:
        return Step(
            "none", "was replaced by somebody else after this run and has no part of ours; it was left so"
        )
    if rest is not None:
        words = "kept what somebody else changed, took our part out"
        return Step("write", words, current._replace(content=rest))
    size = len(current.content)
    return Step(
        "refuse",
        f"was changed by somebody else after this run (now {size} bytes, sha256 {current.sha256[:12]}); it "
        f"was left alone. What was there before: {_kept(change)}",
    )


def _without_our_part(kind: Optional[str], content: bytes) -> Optional[bytes]:
    """Return the file without our part; None if its kind cannot tell.

    Where the kind is not known, each is tried, and only one that takes something out counts.
    """
    text = content.decode("utf-8", "surrogateescape")
    for remover in [KINDS[kind]] if kind in KINDS else KINDS.values():
        try:
            rest = remover(text).encode("utf-8", "surrogateescape")
        except Exception:  # whatever a parser says, the file is then left alone
            continue
        if rest != content or kind in KINDS:
            return rest
    return None


def _kept(change: Change) -> str:
    return f"blob {change.before.sha256}" if change.before.sha256 else "no file"
