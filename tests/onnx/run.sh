#!/bin/sh
# ONNX conformance: every node case of the onnx package through the evaluator, C and LLVM; none of passing.txt may fail, and every operator that
# mlc imports has a case (own_cases.py adds what the package lacks). The sanitized build runs the evaluator and LLVM again. `run.sh --update` writes passing.txt anew.
set -u
cd "$(dirname "$0")/../.." || exit 2
cases=$BUILD/onnx-cases
"$PYTHON" -W ignore tests/onnx/generate.py "$cases" || exit 2

lacking=$("$MLC" ops | sed 's/ .*//' | sort -u | while read -r operator; do
    grep -qx "$operator" "$cases/operators.txt" || echo "$operator"
done)
if [ -n "$lacking" ]; then
    echo "operators without a case: $(echo "$lacking" | tr '\n' ' ')"
    exit 1
fi
conform() { # BUILD-FOLDER OPTIONS…
    build=$1
    shift
    "$build/tests/conform" --list=tests/onnx/passing.txt --special=tests/onnx/special.txt "--results=$build/onnx-results.txt" \
        "--jobs=${MLC_JOBS:-$(nproc)}" "$@" "$cases"
}
first=$(conform "$BUILD" "$@")
status=$?
echo "$first"
[ $status = 0 ] && [ -n "${SANITIZED:-}" ] && [ $# = 0 ] || exit $status
second=$(conform "$SANITIZED" --stages=eval,llvm --timeout=300)
status=$?
printf '%s\n' "$second" | grep -v 'the list does not hold'
printf '%s\n%s\n' "$first" "$second" | awk '/ passed, / { good += $1; bad += $3 } END { print good " passed, " bad " failed" }'
exit $status
