# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one command on the host: the C locale, no shell, no terminal, always a deadline."""

from __future__ import annotations

import os
import subprocess
from typing import Callable, Mapping, NamedTuple, Optional, Sequence


class Completed(NamedTuple):
    """How a command ended. ``rc`` is 127 if it could not be started and 124 if the deadline passed."""

    rc: int
    out: str
    err: str


Run = Callable[..., Completed]


def run(
    argv: Sequence[str],
    timeout: float = 60.0,
    stdin: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[str] = None,
) -> Completed:
    """Run ``argv`` in ``cwd`` and return its end; ``timeout`` in seconds, ``env`` is added to the caller's.

    Output that is not UTF-8 is decoded with replacement characters.
    """
    environment = dict(os.environ, LC_ALL="C", LANGUAGE="C", **(env or {}))
    try:
        done = subprocess.run(
            list(argv),
            input=(stdin or "").encode(),
            capture_output=True,
            env=environment,
            cwd=cwd,
            timeout=timeout,
            check=False,
        )
    except OSError as error:
        return Completed(127, "", f"{argv[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Completed(124, "", f"{argv[0]}: no end within {timeout:g} s")
    return Completed(
        done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )
