# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest ansible-core that is supported, on the Python of Debian 13: the host deb13 tunes itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from live import ROOT, Host, Lab

CORE = "2.21"
PYTHON = "3.13"
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")

INVENTORY = (
    "{dbhosts: {hosts: {self: {ansible_connection: local, ansible_python_interpreter: /usr/bin/python3}}}}"
)
TRY = f"""
export LC_ALL=C.UTF-8 PATH=/root/newest/venv/bin:$PATH
cd /root/newest && tar xf all.tar
[ -d /usr/share/doc/python3-venv ] || apt-get install -qq --yes --no-install-recommends python3-venv >/dev/null
python3 -m venv venv && pip install -q --no-index --find-links wheels ansible-core
ansible --version | grep 'core {CORE}'
for module in library/*.py; do ansible-doc -t module "fleet.mysqltune.$(basename "$module" .py)" >/dev/null; done
echo '{INVENTORY}' >inventory.yml
for round in tune.yml tune.yml verify.yml rollback.yml; do
  ansible-playbook -i inventory.yml "$round" -l dbhosts | tee log | grep -A 1 RECAP
  ! grep -i deprecat log
done
"""


def test_the_main_job_runs_without_a_deprecation_on_the_newest_core(lab: Lab, tmp_path: Path) -> None:
    host: Host = lab.hosts["deb13"]
    host.virgin()
    wheels = [argument for platform in PLATFORMS for argument in ("--platform", platform)]
    subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--only-binary=:all:",
                "--python-version",
                PYTHON,
            ),
            *(*wheels, "--dest", str(tmp_path / "wheels"), f"ansible-core=={CORE}.*"),
        ],
        check=True,
    )
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
    pack = ["tar", "-cf", str(tmp_path / "all.tar"), "--null", "--ignore-failed-read", "-T", "-"]
    subprocess.run(pack, cwd=ROOT, input=files, check=True)
    subprocess.run(["tar", "-rf", str(tmp_path / "all.tar"), "-C", str(tmp_path), "wheels"], check=True)
    host.sh("rm -rf /root/newest && mkdir /root/newest")
    host.copy(tmp_path / "all.tar", "/root/newest/all.tar")
    said = host.sh(f"set -e\n{TRY}", timeout=400)
    assert said.count("failed=0") == 4, said
    changes = [line.split("changed=")[1].split()[0] for line in said.splitlines() if "changed=" in line]
    assert changes[1:3] == ["0", "0"], said
