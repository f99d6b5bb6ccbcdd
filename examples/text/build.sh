#!/bin/sh
# PP-OCR's text detector from the PyPI package rapidocr-onnxruntime -> C -> a program, and a picture drawn with Pillow. usage: build.sh MLC FOLDER; the
# program is FOLDER/text, the picture FOLDER/picture.ppm.
set -eu
mlc=$1
out=$2
here=$(dirname "$0")
mkdir -p "$out"
[ -e "$out/picture.ppm" ] || {
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$out" rapidocr-onnxruntime==1.4.4
    python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --target "$out/python" pillow==13.0.0
    PYTHONPATH=$out/python python3 - "$out" <<'PYTHON'
import glob, sys, zipfile
from PIL import Image, ImageDraw, ImageFont
out = sys.argv[1]
package = zipfile.ZipFile(glob.glob(out + "/rapidocr_onnxruntime-*.whl")[0])
open(out + "/detector.onnx", "wb").write(package.read("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"))
picture = Image.new("RGB", (480, 320), (236, 230, 214))
draw = ImageDraw.Draw(picture)
draw.rectangle((30, 190, 300, 300), (30, 60, 110))
for place, size, colour, text in ((40, 30), 34, (20, 20, 20), "Standalone C"), ((250, 110), 26, (160, 30, 30), "from a model"), ((60, 225), 30, (250, 250, 250), "no library"):
    draw.text(place, text, colour, ImageFont.load_default(size))
picture.save(out + "/picture.ppm")
PYTHON
}
"$mlc" compile "$out/detector.onnx" --shape x=1x3x320x480 --target=native -o "$out/detector.c"
${CC:-cc} -O2 -I"$out" "$here/main.c" "$out/detector.c" "$out/detector.weights.o" -o "$out/text"
