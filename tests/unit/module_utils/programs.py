"""Small programs and allocators, compiled when a test needs them, and running until the test ends."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ALLOCATOR = """
#include <stddef.h>
static char heap[1 << 24]; static size_t used;
void *malloc(size_t n) { void *p = heap + used; used += (n + 31) & ~15ul; return p; }
void free(void *p) { (void) p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { char *q = malloc(n), *o = p; size_t i; if (o) for (i = 0; i < n; i++) q[i] = o[i];
    return q; }
"""
MAIN = """
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc > USED) free(malloc(10));
    if (write(1, "!", 1) != 1) return 1;
    for (;;) pause();
}
"""
USER = "#include <stdlib.h>\nvoid use(void) { free(malloc(3)); }\n"


class Programs:
    """Compile and start; everything is stopped at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: list[subprocess.Popen[bytes]] = []

    def compile(self, name: str, source: str, *flags: str) -> str:
        path = self.directory / name
        subprocess.run(
            ["gcc", "-x", "c", "-", "-o", str(path), "-O0", "-fno-builtin", "-w", *flags],
            input=source.encode(),
            check=True,
        )
        return str(path)

    def library(self, name: str, source: str = ALLOCATOR, *flags: str) -> str:
        return self.compile(name, source, "-shared", "-fPIC", f"-Wl,-soname,{name}", *flags)

    def program(self, name: str, *flags: str, uses_malloc: bool = True, extra: str = "") -> str:
        return self.compile(name, MAIN.replace("USED", "0" if uses_malloc else "1000") + extra, *flags)

    def start(self, path: str, preload: str = "") -> int:
        """Start the program and return its pid once it is in its ``main``."""
        environment = {**os.environ, "LD_PRELOAD": preload}
        process = subprocess.Popen([path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        self.running.append(process)
        assert process.stdout is not None
        assert process.stdout.read(1) == b"!"
        return process.pid

    def stop(self) -> None:
        for process in self.running:
            process.kill()
            process.communicate()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    made = Programs(tmp_path)
    yield made
    made.stop()
