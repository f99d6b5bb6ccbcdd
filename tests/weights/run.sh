#!/bin/sh
# Where weights may be: inline, an object, a file, the caller's memory; wrong ones are refused; what a large model costs; see weights.py.
cd "$(dirname "$0")" || exit 2
exec "$PYTHON" weights.py
