#!/bin/sh
# What a model's structure can ask of the importer, against ONNX Runtime and NumPy; see cases.py.
cd "$(dirname "$0")" || exit 2
exec "$PYTHON" -W ignore cases.py "$MLC"
