#!/bin/sh
# Makes a small PostgreSQL image from the Debian packages installed on this machine, asking no
# registry. Usage: postgres.sh [IMAGE]. Runs as root: initdb needs to become the postgres user.
set -eu

image=${1:-holdpoint-test/postgres:15}
version=${image##*:}
bin=/usr/lib/postgresql/$version
share=/usr/share/postgresql/$version
[ -x "$bin/bin/postgres" ] || { echo "no PostgreSQL $version: apt-get install postgresql-$version" >&2; exit 1; }

root=$(mktemp -d)
data=$(mktemp -d)
trap 'rm -rf "$root" "$data"' EXIT

mkdir -p "$root/data" "$root/tmp" "$root/var/run/postgresql" "$root/dev/shm" "$root/etc" \
    "$root$bin/bin" "$root$bin/lib" "$root/usr/share/postgresql" "$root/usr/lib/locale"
chmod 1777 "$root/tmp"

# The server, the extensions it loads by itself, encodings, time zones, one locale.
cp "$bin/bin/postgres" "$bin/bin/pg_ctl" "$root$bin/bin/"
for module in plpgsql dict_snowball pgcrypto; do
    cp "$bin/lib/$module.so" "$root$bin/lib/" 2>/dev/null || true
done
cp -a "$bin"/lib/*_and_*.so "$bin"/lib/utf8_*.so "$root$bin/lib/" 2>/dev/null || true
cp -aL "$share" "$root/usr/share/postgresql/"
rm -rf "$root$share/man"
cp -a /usr/share/zoneinfo "$root/usr/share/"
cp -a /usr/lib/locale/C.utf8 "$root/usr/lib/locale/" 2>/dev/null || true
ldd "$bin/bin/postgres" "$bin/bin/pg_ctl" | grep -oE '/[^ :]+' | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done

printf 'root:x:0:0::/:/\npostgres:x:999:999::/data:/\n' >"$root/etc/passwd"
printf 'root:x:0:\npostgres:x:999:\n' >"$root/etc/group"

chown postgres "$data"
su postgres -s /bin/sh -c "$bin/bin/initdb -D $data/d -U postgres --locale=C.UTF-8 -E UTF8 -A trust --no-sync" >/dev/null
cp -a "$data/d/." "$root/data/"
echo 'host all all all trust' >>"$root/data/pg_hba.conf"
cat >>"$root/data/postgresql.conf" <<'CONF'
listen_addresses='*'
dynamic_shared_memory_type=posix
logging_collector=off
CONF
chown -R 999:999 "$root/data" "$root/var/run/postgresql"
chmod 700 "$root/data"

tar -C "$root" -c . | docker import \
    -c 'USER 999:999' -c 'ENV PGDATA=/data' -c 'EXPOSE 5432' \
    -c "ENTRYPOINT [\"$bin/bin/postgres\"]" -c 'CMD ["-D","/data"]' - "$image"
