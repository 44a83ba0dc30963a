# SPDX-License-Identifier: GPL-3.0-or-later
"""One start of the timed loop: prove what its malloc is bound to while it stands still, then let it run."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Optional

from .elf import ElfError
from .evidence import collect, judge
from .probe import explain
from .probe_process import preparation
from .reasons import advice

STARTUP = 10.0  # seconds until the program must have come to its loop


class Loop(NamedTuple):
    """What is timed: ``iterations`` of malloc(``size``) and free in each of ``threads``."""

    iterations: int
    size: int
    threads: int = 1


class Turn(NamedTuple):
    """Wall and CPU seconds of one loop, the largest resident size in bytes, and the file that malloc came from."""

    wall: float
    cpu: float
    max_rss: int
    facts: Dict[str, Any]


class Unfit(Exception):
    """Why a library was not measured: a reason code and a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def turn(program: str, loop: Loop, library: Optional[str], seconds: float) -> Turn:
    """Run the loop once, with ``library`` preloaded into it alone; ``Unfit`` or ``TimeoutError``.

    ``seconds`` bound the loop. The environment holds nothing else, so that allocators run with their defaults.
    """
    begun = time.monotonic()
    with _Child(program, loop, library, seconds) as child:
        try:
            child.line(min(STARTUP, seconds))
        except TimeoutError:
            raise Unfit("hang", f"the program does not come to its loop within {STARTUP:g} s") from None
        facts = child.proved()
        child.go_on()
        said = child.line(seconds - (time.monotonic() - begun))
        wall, cpu = (float(word) for word in said.split())
        return Turn(wall, cpu, child.max_rss(), facts)


class _Child:
    """The program as a child of ours that dies with us, and writes its complaints into a file."""

    def __init__(self, program: str, loop: Loop, library: Optional[str], seconds: float) -> None:
        self._library, self._said = library, b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        preload = {"LD_PRELOAD": library} if library else {}
        self._process = subprocess.Popen(
            [program, *(str(number) for number in loop)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={"PATH": os.defpath, "LC_ALL": "C", **preload},
            cwd="/",
            preexec_fn=preparation(None, (seconds + STARTUP) * loop.threads),  # noqa: PLW1509 - we have one thread
        )

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def line(self, seconds: float) -> str:
        """Return the next line of its output; ``Unfit`` if it ends instead, ``TimeoutError``."""
        assert self._process.stdout is not None
        output, deadline = self._process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([output], [], [], left)[0]:
                raise TimeoutError
            part = os.read(output, 4096)
            if not part:
                raise Unfit("crash", self._end())
            self._said += part
        first, _, self._said = self._said.partition(b"\n")
        return first.decode(errors="replace")

    def _end(self) -> str:
        code = self._process.wait()
        how = f"is killed by {signal.Signals(-code).name}" if code < 0 else f"ends with code {code}"
        said = self.complaints().strip().splitlines()
        return (
            f"the program {how} with {self._library or 'nothing preloaded'}{': ' + said[-1] if said else ''}"
        )

    def complaints(self) -> str:
        self._errors.seek(0)
        return self._errors.read(4096).decode(errors="replace")

    def proved(self) -> Dict[str, Any]:
        """Return the facts of the standing program if malloc and free belong to the library; ``Unfit``."""
        try:
            facts = collect(self._process.pid)
        except (OSError, ElfError) as error:
            raise Unfit("not_testable", f"the program's memory cannot be read: {error}") from error
        if self._library is None:
            level, reason = judge(facts, None)
            words = f"nothing was preloaded, but malloc is bound to {facts['bound'].get('malloc')}"
        else:
            level, reason, words = explain(facts, self._library, self.complaints())
        if level != "effective":
            code = reason or level
            raise Unfit(code, f"{words}. {advice(code)}".strip())
        return facts

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def max_rss(self) -> int:
        """Return the peak of this program's own memory: getrusage(2) would count that of its parent before exec."""
        with open(f"/proc/{self._process.pid}/status", encoding="utf-8") as stream:
            found = re.search(r"^VmHWM:\s*(\d+) kB", stream.read(), re.MULTILINE)
        return int(found.group(1)) * 1024 if found else 0


def names(facts: Dict[str, Any]) -> List[str]:
    """Return the files that malloc and free are bound to."""
    return sorted({path for path in facts["bound"].values() if path})
