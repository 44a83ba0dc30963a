#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A tune.yml that finds nothing to do, against a ping of the same host. The host must be tuned already.
# usage: benchmarks/noop.sh INVENTORY [HOST]      e.g. benchmarks/noop.sh inventory/lab/demo.yml deb12
set -eu
cd "$(dirname "$0")/.."
inventory=${1:?usage: benchmarks/noop.sh INVENTORY [HOST]}
host=${2:-deb12}
exec python3 benchmarks/ratio.py 2 "${RUNS:-10}" \
  "ansible -i $inventory $host -m ansible.builtin.ping" \
  "ansible-playbook -i $inventory tune.yml -l $host"
