#!/bin/sh
# Magika's model from its PyPI package -> C -> a program. usage: build.sh MLC FOLDER; the program is FOLDER/filetype.
set -eu
mlc=$1
out=$2
here=$(dirname "$0")
mkdir -p "$out"
[ -e "$out/model.onnx" ] || {
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$out" magika==1.0.3
    python3 - "$out" <<'PYTHON'
import glob, json, sys, zipfile
out = sys.argv[1]
package = zipfile.ZipFile(glob.glob(out + "/magika-*.whl")[0])
folder = "magika/models/standard_v3_3/"
labels = json.loads(package.read(folder + "config.min.json"))["target_labels_space"]
open(out + "/labels.h", "w").write("static const char *const labels[] = {%s};\n" % ", ".join(json.dumps(label) for label in labels))
open(out + "/model.onnx", "wb").write(package.read(folder + "model.onnx"))
PYTHON
}
"$mlc" compile "$out/model.onnx" --shape bytes=1x2048 -o "$out/magika.c"
${CC:-cc} -O2 -I"$out" "$here/main.c" "$out/magika.c" -o "$out/filetype"
