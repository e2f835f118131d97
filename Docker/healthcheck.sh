#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# Healthy: the server answers. While it starts or recovers it is not, and neither while the entry point makes
# a database: HEALTHCHECK's start period and Kubernetes' startup probe say how long that may take.
set -u

# The entry point removes it and writes it again just before it becomes the server.
ready=${REDSTART_RUN:-/run/mysqld}/.socket
if ! socket=$(cat "$ready" 2>/dev/null); then
  echo "the server was not started yet"
  exit 1
fi
# Access denied is an answer: only the connection is asked for.
if ! mysqladmin --no-defaults --socket="$socket" --connect-timeout=3 ping >/dev/null 2>&1; then
  echo "the server does not answer"
  exit 1
fi
