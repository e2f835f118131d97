#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# The image made by buildah and started, as root, without a daemon or a registry.
#
#   extra/buildah_test.sh PACKAGES WORK MIRROR [OPTION...]
#
# PACKAGES holds the .deb files, which stand for the stage of the Dockerfile that compiles; WORK is a new folder; a root
# made by debootstrap from MIRROR stands for the base image. OPTIONs go to mysqld.
set -euo pipefail

packages=$(realpath "$1") work=$2 mirror=$3
shift 3
repo=$(dirname "$(realpath "$0")")/..
mkdir -p "$work/context/packages" "$work/tmp"
work=$(realpath "$work")
export TMPDIR=$work/tmp
image=redstart-test
# chroot: a container shares the processes and the network of the machine.
export BUILDAH_ISOLATION=chroot
# vfs: copies, since one overlay cannot lie on another in a machine that is a container itself.
buildah() { command buildah --root "$work/root" --runroot "$work/run" --storage-driver vfs "$@"; }

say() { echo "buildah test: $*"; }
die() {
  tail -n 20 "$work"/*.log >&2 || true
  echo "buildah test: FAILED: $*" >&2
  exit 1
}
runner='' server=''
# descends PROCESS: from the one that runs the container, whose processes are the machine's.
descends() {
  local process=$1
  while [ "$process" -gt 1 ]; do
    [ "$process" != "$runner" ] || return 0
    process=$(sed 's/.*) . //' "/proc/$process/stat" | cut -d ' ' -f 1)
  done
  return 1
}
find_server() {
  local process
  server=
  for process in $(pgrep -x mysqld); do
    ! descends "$process" || server=$process
  done
}
clean_up() {
  [ -z "$runner" ] || find_server
  [ -z "$server" ] || kill -KILL "$server"
  buildah rm --all >/dev/null || true
}
trap clean_up EXIT

base=$(sed -n 's/^FROM \(debian:[^ ]*\)$/\1/p' "$repo/Docker/Dockerfile")
release=${base#debian:}
say "the base: debootstrap ${release%%-*} stands for $base"
debootstrap --variant=minbase "${release%%-*}" "$work/base" "$mirror" >"$work/debootstrap.log" 2>&1 || die "debootstrap"
# The machine's settings for its mirror.
apt-config dump | grep '^Acquire::.*\(Check-\|Proxy\)' >"$work/base/etc/apt/apt.conf.d/90machine" || true
container=$(buildah from scratch)
buildah add --quiet "$container" "$work/base" / >/dev/null
buildah commit --quiet "$container" "docker.io/library/$base" >/dev/null
buildah rm "$container" >/dev/null
rm -rf "$work/base"

say "the image"
find "$packages" -name 'redstart-*.deb' ! -name '*-dbgsym_*' -exec cp -t "$work/context/packages" {} +
cp -r "$repo/Docker" "$work/context/"
{
  printf 'FROM scratch AS build\nCOPY packages /packages\n'
  awk '/^FROM / { stage++ } stage > 1' "$repo/Docker/Dockerfile"
} >"$work/context/Dockerfile"
revision=0123456789abcdef0123456789abcdef01234567
buildah bud --pull-never --layers=false --format docker --timestamp 1767225600 --build-arg REVISION=$revision --build-arg SOURCE_DATE_EPOCH=1767225600 \
  --file "$work/context/Dockerfile" --tag $image "$work/context" >"$work/image.log" 2>&1 || die "buildah makes no image"
# inspect TEMPLATE WANTED
inspect() {
  local found
  found=$(buildah inspect --type image --format "$1" $image)
  [ "$found" = "$2" ] || die "$1 of the image is $found, not $2"
}
inspect '{{.Docker.Config.User}} {{.Docker.Config.Entrypoint}} {{.Docker.Config.Cmd}}' 'mysql [entrypoint.sh] [mysqld]'
inspect '{{.Docker.Config.Volumes}} {{.Docker.Config.StopSignal}}' 'map[/var/lib/mysql:{}] SIGTERM'
inspect '{{.Docker.Config.Healthcheck.Test}} {{.Docker.Config.Healthcheck.StartPeriod}}' '[CMD healthcheck.sh] 24h0m0s'
inspect '{{index .Docker.Config.Labels "org.opencontainers.image.revision"}}' $revision
inspect '{{.Docker.Created.Unix}}' 1767225600

say "a container of it"
container=$(buildah from --pull-never $image)
folder=$(buildah mount "$container")
[ -z "$(ls -A "$folder/var/lib/mysql")" ] || die "the image brings a database"
if buildah run "$container" -- healthcheck.sh >/dev/null 2>&1; then die "healthy before it starts"; fi
buildah run --env MYSQL_ROOT_PASSWORD=x --env MYSQL_DATABASE=app "$container" -- entrypoint.sh mysqld "$@" >"$work/container.log" 2>&1 &
runner=$!
for _ in $(seq 300); do
  ! buildah run "$container" -- healthcheck.sh >/dev/null 2>&1 || break
  kill -0 $runner 2>/dev/null || die "the container ended"
  sleep 0.5
done
find_server
[ -n "$server" ] || die "no server runs in the container"
[ "$(stat -c %u "/proc/$server")" = "$(sed -n 's/^mysql:x:\([0-9]*\):.*/\1/p' "$folder/etc/passwd")" ] || die "the server does not run as mysql"
said=$(buildah run --env MYSQL_PWD=x "$container" -- mysql --user=root --batch --skip-column-names --execute 'SELECT VERSION(); SHOW DATABASES LIKE "app"' 2>/dev/null)
[[ "$said" = *redstart*app ]] || die "the server says $said"
kill -TERM "$server"
wait $runner || die "no clean end"
runner='' server=''
say "passed"
