# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the product's modules on a lab host without Ansible's unpacking: some hundred times in a minute."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import ansible
import pytest
from live import ROOT, Host

HOME = "/opt/at_every_call"
PYTHON = "/usr/bin/python3"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product's modules and what they import of Ansible, as one archive."""
    path = tmp_path_factory.mktemp("bundle") / "bundle.tar"
    core = Path(ansible.__file__).parent
    names = ["__init__.py", "release.py", "_vendor", "_internal", "module_utils"]
    ours = [f"ansible_collections/fleet/mysqltune/plugins/{name}" for name in ("modules", "module_utils")]
    tar = ["tar", "--exclude=__pycache__", "-h"]
    subprocess.run([*tar, "-cf", path, "-C", core.parent, *(f"ansible/{name}" for name in names)], check=True)
    subprocess.run([*tar, "-rf", path, "-C", ROOT / "collections", *ours], check=True)
    return path


def prepared(host: Host, bundle: Path, *packages: str) -> Host:
    """Put the modules, an allocator and some packages on the host."""
    install = f"apt-get -qq install -y libgoogle-perftools4 {' '.join(packages)} </dev/null"
    host.sh(f"mkdir -p {HOME} && apt-get -qq update && {install} && [ -e {LIBRARY} ]")
    host.copy(bundle, f"{HOME}/bundle.tar")
    host.sh(f"tar -xf {HOME}/bundle.tar -C {HOME}")
    host.copy(Path(__file__).with_name("at_every_call.py"), f"{HOME}/at_every_call.py")
    return host


def call(name: str, **arguments: Any) -> list[str]:
    """Return the command that runs a module there."""
    return [PYTHON, f"{HOME}/at_every_call.py", "module", name, json.dumps(arguments)]
