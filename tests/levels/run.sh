#!/bin/sh
# Code for several levels of x86-64 in one model and the choice among them; see levels.py.
cd "$(dirname "$0")" || exit 2
exec "$PYTHON" levels.py
