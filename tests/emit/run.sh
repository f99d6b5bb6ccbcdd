#!/bin/sh
# Emitted C: compilers, warnings, sanitizers, valgrind, symbols, wrong calls, determinism, the same bits everywhere; see emit.py.
cd "$(dirname "$0")" || exit 2
exec "$PYTHON" -W ignore emit.py "$@"
