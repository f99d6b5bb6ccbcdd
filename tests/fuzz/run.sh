#!/bin/sh
# The libFuzzer targets (see targets.sh), then fixed sets of mutants of small models and of the node cases through the sanitized reader, importer, passes
# and lowering (see mutate.py). MLC_FUZZ_SECONDS=N and MLC_MUTANTS=N make more of them.
cd "$(dirname "$0")" || exit 2
cases=$BUILD/onnx-cases
sh ./targets.sh
status=$?
"$PYTHON" -W ignore ../onnx/generate.py "$cases" >/dev/null || exit 2
find "$cases" -name model.onnx -size -8k | sort >"$cases/small.txt"
# shellcheck disable=SC2046
"$PYTHON" -W ignore mutate.py "$SANITIZED/mlc" "${MLC_MUTANTS:-300}" 1 --stage=loops --operators $(cat "$cases/small.txt") || status=1
"$PYTHON" -W ignore mutate.py "$SANITIZED/mlc" "${MLC_MUTANTS:-400}" 1 || status=1
exit $status
