#!/bin/sh
# The libFuzzer targets (see targets.sh), then a fixed set of mutants of small models through the sanitized reader and importer (see mutate.py).
# MLC_FUZZ_SECONDS=N and MLC_MUTANTS=N make more of them.
cd "$(dirname "$0")" || exit 2
sh ./targets.sh
status=$?
"$PYTHON" -W ignore mutate.py "$SANITIZED/mlc" "${MLC_MUTANTS:-400}" 1 || status=1
exit $status
