#!/bin/sh
# Patterns: an operator and the same written out as exporters write it must become the same kernels (patterns.py).
cd "$(dirname "$0")/../.." || exit 2
exec "$PYTHON" tests/patterns/patterns.py "$@"
