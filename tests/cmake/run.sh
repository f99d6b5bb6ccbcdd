#!/bin/sh
# What `cmake --install` puts in place, used by other projects; see install.py.
cd "$(dirname "$0")" || exit 2
exec "$PYTHON" install.py
