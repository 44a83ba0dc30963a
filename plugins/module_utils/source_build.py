# SPDX-License-Identifier: GPL-3.0-or-later
"""Build an allocator from its source into a directory of its own, prove the library, and put the directory in place."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import tempfile
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

from .allocators import check_library, classify
from .built import MARK, read_mark, tree
from .command import Run
from .command import run as run_command
from .elf import Elf
from .source_archive import Source, SourceError, unpack

LIMIT = 840.0
"""Seconds for one command of a build; less than a lease lasts."""

_LARGE_PAGES = ("aarch64", "ppc64le")
"""Where a kernel may have pages of 64 KiB: a jemalloc built for smaller ones would abort there."""

OUTPUT = {"gperftools": ".libs", "jemalloc": "lib", "mimalloc": "."}
"""Where each project's build leaves the library."""


class Workshop(NamedTuple):
    """What a build works with: ``alive`` is called before each step, ``root_uid`` must own what is made."""

    prefix: str
    run: Run = run_command
    alive: Callable[[], None] = lambda: None
    root_uid: int = 0
    root: str = "/"


def tools(source: Source) -> List[str]:
    """Return the programs that the build of this source needs."""
    needed = ["cc", "c++", "make"]
    if source.project == "mimalloc":
        return [*needed, "cmake"]
    if source.ready:
        return needed
    return [*needed, "autoconf", *(["automake", "libtoolize"] if source.project == "gperftools" else [])]


def missing_tools(source: Source) -> List[str]:
    """Return those of the programs that this host does not have."""
    return [tool for tool in tools(source) if not shutil.which(tool)]


def options(source: Source, allocator: str, machine: str) -> List[str]:
    """Return the options of configure or cmake: a release build of the one shared library, without tests and profiler."""
    if source.project == "mimalloc":
        off = ("BUILD_TESTS", "BUILD_STATIC", "BUILD_OBJECT", "OPT_ARCH")
        return ["-DCMAKE_BUILD_TYPE=Release", "-DMI_OVERRIDE=ON", *(f"-DMI_{name}=OFF" for name in off)]
    if source.project == "jemalloc":
        version = f"--with-version={source.version}-0-g{'0' * 40}"
        pages = ["--with-lg-page=16"] if machine in _LARGE_PAGES else []
        return [
            "--enable-shared",
            "--disable-prof",
            version,
            *pages,
            "EXTRA_CFLAGS=-g0",
            "EXTRA_CXXFLAGS=-g0",
        ]
    plain = [
        "--disable-static",
        "--disable-dependency-tracking",
        "--disable-libunwind",
        "CFLAGS=-O2",
        "CXXFLAGS=-O2",
    ]
    if allocator == "tcmalloc_minimal":
        return ["--enable-minimal", *plain]
    # The heap profiler is what makes it the full tcmalloc: it sleeps until a program asks for it. The CPU profiler is a
    # library of its own, which is not built; without it configure would not look for ucontext.h, which both need.
    return ["--disable-heap-checker", "--disable-debugalloc", *plain]


def steps(source: Source, allocator: str, machine: str, cpus: int) -> List[List[str]]:
    """Return the commands of the build, for a working directory beside ``source``, where the source is."""
    chosen = options(source, allocator, machine)
    if source.project == "mimalloc":
        configure = ["cmake", "-G", "Unix Makefiles", *chosen, "../source"]
        return [configure, ["make", f"-j{cpus}", "mimalloc"]]
    generate = [] if source.ready else [["sh", "-c", "cd ../source && exec " + _GENERATE[source.project]]]
    goal = "build_lib_shared" if source.project == "jemalloc" else f"lib{allocator}.la"
    return [*generate, ["../source/configure", *chosen], ["make", f"-j{cpus}", goal]]


_GENERATE = {"gperftools": "autoreconf -i", "jemalloc": "autoconf"}


def is_built(prefix: str, source: Source, allocator: str) -> bool:
    """Tell whether the allocator stands below the prefix, built from this very archive in the way of today."""
    directory = tree(prefix, allocator, source.version)
    mark = read_mark(directory)
    wanted = options(source, allocator, os.uname().machine)
    return bool(
        mark.get("source_sha256") == source.sha256
        and mark.get("options") == wanted
        and os.path.isfile(os.path.join(directory, str(mark.get("library"))))
    )


@contextlib.contextmanager
def bench(shop: Workshop) -> Iterator[str]:
    """Give out a directory for root alone on the prefix's file system, one at a time, and clear it away afterwards."""
    with contextlib.suppress(FileExistsError):
        os.makedirs(shop.prefix, 0o755)
    descriptor = os.open(os.path.join(shop.prefix, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in glob.glob(os.path.join(shop.prefix, ".build-*")):
            shutil.rmtree(left)
        work = tempfile.mkdtemp(prefix=".build-", dir=shop.prefix)
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
    finally:
        os.close(descriptor)


def build(archive: str, source: Source, allocator: str, work: str, shop: Workshop) -> str:
    """Build below ``work`` and return the finished directory there; ``SourceError`` if it cannot be built."""
    place, output = os.path.join(work, "source"), os.path.join(work, "build")
    os.mkdir(place)
    os.mkdir(output)
    unpack(archive, place)
    machine = os.uname().machine
    for step in steps(source, allocator, machine, len(os.sched_getaffinity(0))):
        shop.alive()
        done = shop.run(["nice", "-n", "19", *step], timeout=LIMIT, cwd=output)
        if done.rc != 0:
            said = "\n".join((done.err.strip() or done.out.strip()).splitlines()[-15:])
            raise SourceError(
                f"{source.project} {source.version} could not be built: `{' '.join(step)}` said: {said}"
            )
    finished = _gather(
        os.path.join(output, OUTPUT[source.project]), allocator, os.path.join(work, "tree"), shop
    )
    for text in ("COPYING", "LICENSE"):
        if os.path.isfile(os.path.join(place, text)):
            shutil.copy(os.path.join(place, text), finished)
    _write_mark(finished, source, allocator, options(source, allocator, machine))
    return finished


def _gather(output: str, allocator: str, finished: str, shop: Workshop) -> str:
    """Copy the library and its links into a new tree."""
    built = [path for path in sorted(glob.glob(f"{output}/lib{allocator}.so*")) if not os.path.islink(path)]
    if len(built) != 1:
        raise SourceError(
            f"the build left {len(built)} files lib{allocator}.so* and not one. Look at the project's log"
        )
    os.makedirs(os.path.join(finished, "lib"))
    name = os.path.basename(built[0])
    target = os.path.join(finished, "lib", name)
    shutil.copyfile(built[0], target)
    if shutil.which("strip"):
        shop.run(["strip", "--strip-debug", target])
    os.chmod(target, 0o644)
    with Elf.open(target) as elf:
        soname = elf.soname or name
    for link in sorted({soname, f"lib{allocator}.so"} - {name}):
        os.symlink(name, os.path.join(finished, "lib", link))
    return finished


def _write_mark(finished: str, source: Source, allocator: str, chosen: List[str]) -> None:
    [real] = [p for p in glob.glob(f"{finished}/lib/lib{allocator}.so*") if not os.path.islink(p)]
    with Elf.open(real) as elf:
        soname, machine, needed = elf.soname or os.path.basename(real), elf.machine, elf.needed
    mark = {
        "allocator": allocator,
        "project": source.project,
        "version": source.version,
        "source_sha256": source.sha256,
        "options": chosen,
        "library": f"lib/{soname}",
        "machine": machine,
        "glibc": needed_glibc(real),
        "needed": needed,
    }
    with open(os.path.join(finished, MARK), "w", encoding="utf-8") as stream:
        json.dump(mark, stream, indent=1, sort_keys=True)
        stream.write("\n")


def prove(finished: str, allocator: str, shop: Workshop) -> Dict[str, Any]:
    """Return the mark of a tree whose library is the allocator, is safe, and loads here; else ``SourceError``."""
    mark = read_mark(finished)
    path = os.path.join(finished, str(mark.get("library")))
    problem = check_library(path, root_uid=shop.root_uid, root=shop.root)
    if problem:
        raise SourceError(f"what was built cannot be used: {problem[1]}")
    with Elf.open(path) as elf:
        soname = elf.soname or ""
    if classify(soname) != allocator:
        raise SourceError(f"what was built is {soname or 'a library without a soname'}, and not {allocator}")
    check_glibc(allocator, str(mark.get("glibc")), os.confstr("CS_GNU_LIBC_VERSION") or "")
    done = shop.run(["/bin/sh", "-c", ":"], timeout=20, env={"LD_PRELOAD": path})
    if done.rc != 0 or done.err.strip():
        raise SourceError(f"what was built does not load on this host: {done.err.strip()[-400:]}. {OLDEST}")
    return mark


OLDEST = "Build on the oldest system of the fleet, or let each host build itself (allocator_source_host: '')"


def check_glibc(allocator: str, needed: str, present: str) -> None:
    """Raise ``SourceError`` if a library needs a newer C library than ``present`` (as ``glibc 2.36``)."""
    if _numbers(needed) > _numbers(present) > ():
        raise SourceError(f"this {allocator} needs glibc {needed}, and this host has {present}. {OLDEST}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def needed_glibc(path: str) -> str:
    """Return the newest version of the C library that a file asks for; empty if it asks for none."""
    with open(path, "rb") as stream:
        found = re.findall(rb"(?<=\0)GLIBC_([0-9.]+)(?=\0)", stream.read())
    return max((version.decode() for version in found), key=_numbers, default="")


def place(finished: str, prefix: str, mark: Dict[str, Any]) -> None:
    """Move a finished tree to where it belongs; one that is there is replaced."""
    target = tree(prefix, str(mark["allocator"]), str(mark["version"]))
    os.chmod(finished, 0o755)
    os.chmod(os.path.join(finished, "lib"), 0o755)
    if os.path.isdir(target):
        os.rename(target, f"{os.path.dirname(finished)}/old")
    os.rename(finished, target)
