#!/bin/sh
# Random nests of control flow against ONNX Runtime, through the evaluator, C and LLVM; see nests.py. MLC_NESTS=A..B holds other seeds (1..60).
cd "$(dirname "$0")/../.." || exit 2
seeds=${MLC_NESTS:-1..60}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$PYTHON" -W ignore tests/nests/nests.py "$folder" "${seeds%%.*}" "${seeds##*.}" || exit 2
"$BUILD/tests/conform" --list="$folder/list.txt" --jobs="${MLC_JOBS:-$(nproc)}" "$@" "$folder"
