#!/bin/sh
# Every kind of output: symbols, the same bytes each time, two models and several threads in one program; see outputs.py.
cd "$(dirname "$0")" || exit 2
exec "$PYTHON" outputs.py
