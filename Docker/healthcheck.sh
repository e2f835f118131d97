#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# Healthy: the server answers, or it is still starting or recovering (process 1 is mysqld and has not
# opened its port yet since it started). Unhealthy: it answered once and does not any more.
set -u

socket=${1:-/var/run/mysqld/mysqld.sock}
state=${REDSTART_HEALTH_STATE:-/tmp/.redstart-answered}

# Access denied is an answer: only the connection is asked for.
if mysqladmin --no-defaults --socket="$socket" --connect-timeout=3 ping >/dev/null 2>&1; then
  : >"$state"
  exit 0
fi
if [ -e "$state" ]; then
  echo "the server answered before and does not answer now"
  exit 1
fi
echo "starting or recovering"
