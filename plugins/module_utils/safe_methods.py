# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose how a mysqld_safe script gets its library to the server: by our block in it, or by its own malloc-lib."""

from __future__ import annotations

import os
from typing import Optional

from . import malloc_lib
from .mysqld_safe import Script, ScriptError, adopted, hand_edits, inspect, patched, unpatched, without_block
from .safe_option_files import places
from .safe_state import Delivery, Wanted, read_exactly

_INSTEAD = ("not_understood", "read_only")
"""Why a script may get its library through malloc-lib where the method is ``auto``."""


def decide(result: Delivery, wanted: Wanted) -> None:
    """Fill in what the files should say; ``ScriptError`` with the reason if it cannot be done."""
    if not wanted.library and not wanted.environment:
        _absent(result)
        return
    methods = {"patch": _patch, "malloc_lib": _malloc_lib, "auto": _auto}
    _check_foreign(result, wanted)
    methods[wanted.method](result, wanted)
    result.method_reason = result.method_reason or f"asked for: {wanted.method}"


def _absent(result: Delivery) -> None:
    try:
        script = inspect(result.before)
    except ScriptError:
        if not _nothing_to_remove(result):
            raise
        return
    result.family, result.hand_edits = script.family, list(script.hand_edits)
    result.after = unpatched(result.before)


def _check_foreign(result: Delivery, wanted: Wanted) -> None:
    """Refuse to stack our library on a malloc-lib of somebody else's."""
    same = {wanted.library, wanted.library and os.path.realpath(wanted.library)}
    for one in result.found():
        if not one.ours and not {one.library, os.path.realpath(one.library)} & same:
            raise ScriptError(
                "second_allocator",
                f"{one.file} sets malloc-lib={one.library}, which is not ours. Take that line out first; two "
                "allocators in one process are worse than either",
            )


def _auto(result: Delivery, wanted: Wanted) -> None:
    """Patch the script where that can be done; else let it preload the library by itself, if it would."""
    try:
        _patch(result, wanted)
        result.method_reason = result.method_reason or f"the script is understood (family {result.family})"
        return
    except ScriptError as error:
        if error.reason not in _INSTEAD:
            raise
        cause = error
    try:
        _malloc_lib(result, wanted)
    except ScriptError as error:
        raise ScriptError(cause.reason, f"by a patch: {cause}; by malloc_lib: {error}") from error
    result.method_reason = f"no patch: {cause}"


def _patch(result: Delivery, wanted: Wanted) -> None:
    script = inspect(result.before)
    result.family, result.hand_edits = script.family, list(script.hand_edits)
    if _taken_over(result, wanted):
        return
    after = patched(result.before, wanted.library, os.path.realpath, wanted.environment)
    _check_writable(result, after)
    result.method, result.after, result.adopted = "patch", after, _by_hand(script, wanted)


def _by_hand(script: Script, wanted: Wanted) -> bool:
    """Tell whether a hand-made preload in the script does all that is wanted."""
    if not wanted.library or wanted.environment:
        return False
    return adopted(script, wanted.library, os.path.realpath)


def _taken_over(result: Delivery, wanted: Wanted) -> bool:
    """Leave a malloc-lib of somebody else's as it is if it is all that is wanted."""
    foreign = [one for one in result.found() if not one.ours]
    if not foreign or wanted.environment or result.hand_edits:
        return False
    result.after = without_block(result.before)
    _check_writable(result, result.after)
    result.method, result.adopted = "malloc_lib", True
    result.method_reason = f"{foreign[0].file} has it already"
    return True


def _malloc_lib(result: Delivery, wanted: Wanted) -> None:
    if wanted.environment or not wanted.library:
        raise ScriptError(
            "invalid_environment",
            f"malloc-lib carries no variables ({', '.join(wanted.environment)}), only a patch of the script does",
        )
    script = _look(result)
    if _taken_over(result, wanted):
        return
    if script and _by_hand(script, wanted):
        _patch(result, wanted)
        result.method_reason = "a hand-made preload in the script does it already"
        return
    _check_accepted(result, wanted.library)
    after = unpatched(result.before) if script else without_block(result.before)
    _check_writable(result, after)
    result.method, result.after = "malloc_lib", after
    for file in places(result.runners, wanted.option_file):
        known = result.options_before.get(file)
        if known is None and os.path.exists(file):
            known = result.options_before[file] = read_exactly(file)
        result.options_after[file] = malloc_lib.with_block(known or "", wanted.library)


def _look(result: Delivery) -> Optional[Script]:
    """See what is in the script; one that is not understood must not have a hand-made preload."""
    try:
        script = inspect(result.before)
    except ScriptError as error:
        if error.reason != "not_understood":
            raise
        for edit in hand_edits(result.before):
            words = f"line {edit.line} preloads by hand: {edit.text[:120]!r}. Take it out"
            raise ScriptError("hand_edit", words) from error
        return None
    result.family, result.hand_edits = script.family, list(script.hand_edits)
    return script


def _check_accepted(result: Delivery, library: str) -> None:
    for runner in result.runners:
        problem = malloc_lib.accepts(
            result.before, library, os.path.realpath, runner.basedir, runner.my_cnf_in_datadir
        )
        if problem:
            raise ScriptError(*problem)


def _check_writable(result: Delivery, after: str) -> None:
    directory = os.path.dirname(result.real_path)
    if after != result.before and read_only(directory):
        raise ScriptError("read_only", f"{directory} is on a read-only file system")


def read_only(directory: str) -> bool:
    """Tell whether nothing can be written there, not even by root."""
    return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)


def _nothing_to_remove(result: Delivery) -> bool:
    """Take our block out of a script that is not understood any more; False if a hand-made one may be there."""
    result.after = without_block(result.before)
    code = (line for line in result.after.split("\n") if not line.lstrip().startswith("#"))
    return not any("LD_PRELOAD=" in line for line in code)
