#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# Healthy: the server answers, or it has not answered since the container started, because it still
# starts or recovers. Unhealthy: it answered once and does not any more.
set -u

# Belongs to the server's user: nobody else can write there.
run=${REDSTART_RUN:-/run/mysqld}
# The entry point removes it.
state=$run/.answered

# Access denied is an answer: only the connection is asked for.
if mysqladmin --no-defaults --socket="$run/mysqld.sock" --connect-timeout=3 ping >/dev/null 2>&1; then
  : >"$state"
  exit 0
fi
if [ -e "$state" ]; then
  echo "the server answered before and does not answer now"
  exit 1
fi
echo "starting or recovering"
