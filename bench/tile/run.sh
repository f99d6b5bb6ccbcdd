#!/bin/sh
# The gallery's matmul tile against the machine's fma peak: sets up, builds with gcc, prints a table; 1 when a compiler stays below 95 %.
# usage: run.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/../.."
sh tests/setup.sh test
build=build/release
python=build/venv/bin/python
proto=$("$python" -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "onnx.proto"))')
cmake -S . -B $build -G Ninja "-DMLC_ONNX_PROTO=$proto" -DCMAKE_C_COMPILER=gcc >/dev/null
ninja -C $build tile >/dev/null
exec $build/bench/tile "$@"
