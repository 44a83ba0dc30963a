#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build an allocator from source."""

from __future__ import annotations

DOCUMENTATION = r"""
module: allocator_build
short_description: Build a memory allocator from its source archive
description:
  - Builds tcmalloc or tcmalloc_minimal from gperftools, jemalloc or mimalloc, and puts the library into a directory of its own,
    C(PREFIX/ALLOCATOR-VERSION/lib), that belongs to root alone.
  - Project and version are recognised by the content of the archive, never by its name. Archives that would reach outside of
    their directory, that are damaged, absurdly large, or hold anything else are refused.
  - The build runs outside of the source tree, in a directory for root alone, with a niceness of 19 - a release build of the
    one library, without tests and profiler. The full tcmalloc has gperftools' heap profiler in it, which sleeps.
  - Before it is put in place the library is proved to be that allocator, to be safe to preload, and to load on this host.
  - What was built can be packed for other hosts. Given such a file, the module installs what is in it.
version_added: 0.3.0
author: fleet.mysqltune contributors
options:
  source:
    description: On this host, a source archive (C(.tar.gz), C(.tar.bz2), C(.tar.xz)), or what this module has packed elsewhere.
    type: path
    required: true
  sha256:
    description: Hash that the source archive must have; for a packed file, that of the archive that it was built from.
    type: str
    default: ""
  allocator:
    description: Allocator to build.
    type: str
    required: true
    choices: [tcmalloc, tcmalloc_minimal, jemalloc, mimalloc]
  prefix:
    description: Directory below which the allocators are put.
    type: path
    default: /opt/fleet-mysqltune
  install:
    description:
      - V(prefix) puts the directory in place.
      - V(deb) makes a Debian package of it, C(fleet-mysqltune-ALLOCATOR), keeps that in C(PREFIX/packages), and installs it.
    type: str
    choices: [prefix, deb]
    default: prefix
  pack_only:
    description: Install nothing; pack what was built for other hosts, in C(PREFIX/packages), as tar archive or Debian package.
    type: bool
    default: false
  tool_packages:
    description: By the C(ID) or C(ID_LIKE) of a system, the package that brings each program that a build may need. Nothing is
      installed; RV(packages) and the error message name them.
    type: dict
    default: {}
  run_id:
    description: Run of the toolkit that this belongs to; its lease on the host is renewed while the build goes on.
    type: str
attributes:
  check_mode:
    description: Predicts RV(library), and says in RV(missing) which programs the build would lack. Builds nothing.
    support: full
  diff_mode:
    description: A library has no readable difference.
    support: none
  platform:
    description: Needs the tools of a C and C++ build.
    support: full
    platforms: linux
notes:
  - What was built stays after an undo, like packages.
seealso:
  - module: fleet.mysqltune.preload_probe
"""

EXAMPLES = r"""
- name: Build jemalloc
  fleet.mysqltune.allocator_build:
    source: /root/jemalloc-5.3.0.tar.bz2
    allocator: jemalloc
  register: built

- name: Pack tcmalloc for the hosts that have no compiler
  fleet.mysqltune.allocator_build:
    source: /root/gperftools-2.16.tar.gz
    allocator: tcmalloc
    install: deb
    pack_only: true
"""

RETURN = r"""
library:
  description: The library, to preload by this path. In check mode the path where it will be.
  type: str
  returned: success
  sample: /opt/fleet-mysqltune/tcmalloc_minimal-2.15/lib/libtcmalloc_minimal.so.4
project:
  description: The project that was recognised.
  type: str
  returned: success
  sample: gperftools
version:
  description: Its version.
  type: str
  returned: success
  sample: "2.15"
packed:
  description: The file for other hosts, null if none was made.
  type: str
  returned: success
  sample: /opt/fleet-mysqltune/packages/fleet-mysqltune-tcmalloc-minimal_2.15_amd64.deb
reason:
  description: V(not_built) where it failed, V(journal) where another run has the host.
  type: str
  returned: failure
  sample: not_built
missing:
  description: Programs that the build needs and this host does not have.
  type: list
  elements: str
  returned: always
  sample: [cmake]
packages:
  description: The packages that bring them, as O(tool_packages) has it.
  type: list
  elements: str
  returned: success
  sample: [cmake]
family:
  description: The key of O(tool_packages) that fits this host, null if none does or none was needed.
  type: str
  returned: success
  sample: debian
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import lease
from ..module_utils.built import PREFIX, PROJECTS
from ..module_utils.lease import STATE_ROOT, JournalError
from ..module_utils.making import Order, make
from ..module_utils.source_archive import SourceError
from ..module_utils.source_build import Workshop

ARGUMENTS = {
    "source": {"type": "path", "required": True},
    "sha256": {"type": "str", "default": ""},
    "allocator": {
        "type": "str",
        "required": True,
        "choices": [name for names in PROJECTS.values() for name in names],
    },
    "prefix": {"type": "path", "default": PREFIX},
    "install": {"type": "str", "choices": ["prefix", "deb"], "default": "prefix"},
    "pack_only": {"type": "bool", "default": False},
    "tool_packages": {"type": "dict", "default": {}},
    "run_id": {"type": "str"},
}


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    os.umask(0o022)
    order = Order(
        params["source"],
        params["allocator"],
        params["sha256"],
        params["install"],
        params["pack_only"],
        params["tool_packages"],
    )
    shop = Workshop(params["prefix"], alive=lambda: renew(params["run_id"]))
    try:
        made = make(order, shop, module.check_mode)
    except SourceError as error:
        module.fail_json(msg=f"{error}.", reason=error.reason, missing=[])
    except JournalError as error:
        module.fail_json(msg=str(error), reason="journal", missing=[])
    except OSError as error:
        words = f"{error.filename or params['prefix']}: {error.strerror}."
        module.fail_json(msg=words, reason=SourceError.reason, missing=[])
    module.exit_json(**made._asdict())


def renew(run_id):
    """Renew the lease of the run if it has one here; refuse where another run has the host."""
    held = lease.current(STATE_ROOT)
    if run_id and held and held.run_id == run_id:
        lease.take(run_id, STATE_ROOT)
    elif run_id:
        lease.check(run_id, STATE_ROOT)


if __name__ == "__main__":
    main()
