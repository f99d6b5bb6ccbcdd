#!/bin/sh
# ONNX conformance: every node case of the onnx package through the evaluator, C and LLVM; none of passing.txt may fail, and every operator that
# mlc imports has a case or a line in uncovered.txt. `run.sh --update` writes passing.txt anew.
set -u
cd "$(dirname "$0")/../.." || exit 2
cases=$BUILD/onnx-cases
"$PYTHON" -W ignore tests/onnx/generate.py "$cases" || exit 2

lacking=$("$MLC" ops | sed 's/ .*//' | sort -u | while read -r operator; do
    grep -qx "$operator" "$cases/operators.txt" || grep -q "^$operator " tests/onnx/uncovered.txt || echo "$operator"
done)
if [ -n "$lacking" ]; then
    echo "operators without a case: $(echo "$lacking" | tr '\n' ' ')"
    exit 1
fi
"$BUILD/tests/conform" --list=tests/onnx/passing.txt --special=tests/onnx/special.txt "--results=$BUILD/onnx-results.txt" "$@" "$cases"
