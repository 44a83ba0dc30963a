#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Build a lab image without a registry, unless it is there; print its kind and name.
# usage: build.sh REPOSITORY KIND SUITE PACKAGES [HOOK...]; a hook is a directory beside this script.
set -euo pipefail
repository=$1 kind=$2 suite=$3 packages=$4
shift 4
cd "$(dirname "$(realpath "$0")")"

# The tag is the hash of the recipe: all checkouts share the image, and none gets a stale one.
tag=$({ printf '%s ' "$suite" "$packages" "$@" && find build.sh host.sh "$@" -type f -print0 | sort -z | xargs -0 cat; } | sha256sum)
image=$repository/$kind:${tag:0:12}
echo "$kind $image"

# Labs that start at the same time wait for one build.
exec 9>"/run/lock/${image//[^a-z0-9]/-}"
flock 9
if podman image exists "$image"; then exit 0; fi

# This machine's own Debian mirrors, whatever the format of its apt sources, with the suite exchanged.
sources() {
  local codename
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  # shellcheck disable=SC2016  # apt-get expands these
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    sed -nE "s/^(\S+) (${codename:-stable}|stable)(-updates|-security)? main$/deb \1 $suite\3 main/p" |
    grep -v ' sid-' | sort -u  # sid has neither updates nor a security archive
}

if [ -n "${LAB_MIRROR:-}" ]; then
  mirrors="deb $LAB_MIRROR $suite main"
else
  mirrors=$(sources)
  [ -n "$mirrors" ] || { apt-get -q update && mirrors=$(sources); } >&2
fi
[ -n "$mirrors" ] || {
  echo "No Debian mirror in the apt sources of this machine. Name one: LAB_MIRROR=http://MIRROR/debian" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt-config dump --format '%F "%v";%n' Acquire |
  grep -E '^Acquire::(Check-Date|Check-Valid-Until|https?::Proxy[^ ]*) ' >"$work/apt.conf" || true

hooks=("--customize-hook=$PWD/host.sh")
for hook; do hooks+=("--customize-hook=$PWD/$hook/hook.sh"); done

# The lists of packages stay, so that `apt-get install` works on the hosts at once.
printf '%s\n' "$mirrors" |
  mmdebstrap --quiet --variant=apt --skip=cleanup/apt/lists --aptopt="$work/apt.conf" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --include="ca-certificates,dbus,iproute2,openssh-server,procps,python3,systemd,systemd-sysv${packages:+,$packages}" \
    "${hooks[@]}" "$suite" "$work/root.tar" -
podman import --quiet --change 'CMD ["/sbin/init"]' --change 'STOPSIGNAL SIGRTMIN+3' "$work/root.tar" "$image" >/dev/null
echo "built $image" >&2
