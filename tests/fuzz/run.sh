#!/bin/sh
# A fixed set of mutants of small models through the sanitized reader and importer; see mutate.py. MLC_MUTANTS=N makes more of them.
cd "$(dirname "$0")" || exit 2
exec "$PYTHON" -W ignore mutate.py "$SANITIZED/mlc" "${MLC_MUTANTS:-400}" 1
