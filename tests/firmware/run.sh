#!/bin/sh
# Compiled models on an emulated Cortex-M4 without libc; see firmware.py.
cd "$(dirname "$0")" || exit 2
exec "$PYTHON" -W ignore firmware.py "$@"
