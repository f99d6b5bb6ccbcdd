#!/bin/sh
# Real models through C and LLVM against ONNX Runtime; see check.py.
cd "$(dirname "$0")" || exit 2
exec "$PYTHON" check.py "$@"
