#!/bin/sh
# The gallery of programs in loop text: every way of running them, against NumPy.
exec "$PYTHON" "$(dirname "$0")/gallery.py" "--gallery=$BUILD/tests/gallery" "$@"
