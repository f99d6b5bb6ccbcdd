#!/bin/sh
# Malformed and unsupported models end in a message and the right exit status; see cases.py.
cd "$(dirname "$0")" || exit 2
exec "$PYTHON" -W ignore cases.py "$SANITIZED/mlc"
