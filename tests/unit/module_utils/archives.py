"""Archives made for a test: sound ones, and hostile ones."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

CONFIGURE = """#!/bin/sh
echo "$@" >configured
cat >Makefile <<'END'
build_lib_shared:
	mkdir -p lib
	cc -shared -fPIC -Wl,-soname,SONAME -o lib/libjemalloc.so.2 ../source/src/jemalloc.c
END
"""
"""As little of jemalloc as a real build needs."""


def jemalloc(code: str = "", soname: str = "libjemalloc.so.2", version: str = "5.3.0") -> dict[str, str]:
    return {
        "jemalloc-5.3.0/VERSION": f"{version}-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c\n",
        "jemalloc-5.3.0/COPYING": "free\n",
        "jemalloc-5.3.0/configure": CONFIGURE.replace("SONAME", soname),
        "jemalloc-5.3.0/configure.ac": "AC_INIT([Makefile.in])\nrev=2\n",
        "jemalloc-5.3.0/src/jemalloc.c": code,
    }


def gperftools(init: str = "AC_INIT([gperftools],[2.16],[list])") -> dict[str, str]:
    return {
        "gperftools-2.16/configure.ac": f"{init}\nTCMALLOC_SO_VERSION=9:18:5\n",
        "gperftools-2.16/src/tcmalloc.cc": "",
    }


def mimalloc() -> dict[str, str]:
    numbers = "set(mi_version_major 3)\nset(mi_version_minor 0)\nset(mi_version_patch 1)\nset(mi_version ${mi_version_major}.0)\n"
    return {
        "mimalloc/CMakeLists.txt": "project(libmimalloc C CXX)\n",
        "mimalloc/include/mimalloc.h": "",
        "mimalloc/cmake/mimalloc-config-version.cmake": numbers,
    }


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, size, 0o644
    return info


def write(
    path: Path, files: dict[str, str], *extra: tarfile.TarInfo, first: tuple[tarfile.TarInfo, ...] = ()
) -> str:
    """Write an archive, compressed as its name says; members without content come first or last."""
    kind = path.suffix.lstrip(".")
    with tarfile.open(path, f"w:{kind if kind in ('gz', 'bz2', 'xz') else ''}") as tar:
        for info in first:
            tar.addfile(info, io.BytesIO(bytes(info.size)))
        for name, text in files.items():
            info = member(name, size=len(text.encode()))
            info.mode, info.mtime = (0o755 if name.endswith("configure") else 0o644), 1_000_000_000
            tar.addfile(info, io.BytesIO(text.encode()))
        for info in extra:
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    return str(path)
