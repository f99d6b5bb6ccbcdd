#!/bin/sh
# Silero's voice activity model and a recording from the PyPI package pipecat-ai -> C -> a program. usage: build.sh MLC FOLDER; the program is FOLDER/voice.
set -eu
mlc=$1
out=$2
here=$(dirname "$0")
mkdir -p "$out"
[ -e "$out/tone.wav" ] || {
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$out" pipecat-ai==1.14.0
    python3 - "$out" <<'PYTHON'
import glob, math, struct, sys, wave, zipfile
out = sys.argv[1]
package = zipfile.ZipFile(glob.glob(out + "/pipecat_ai-*.whl")[0])
for name, path in ("silero.onnx", "audio/vad/data/silero_vad.onnx"), ("ready.wav", "services/aws/nova_sonic/ready.wav"):
    open(out + "/" + name, "wb").write(package.read("pipecat/" + path))
with wave.open(out + "/tone.wav", "wb") as tone: # sounds, but is no voice
    tone.setparams((1, 2, 16000, 0, "NONE", ""))
    tone.writeframes(struct.pack("<16000h", *(int(9000 * math.sin(2 * math.pi * 440 * i / 16000)) for i in range(16000))))
PYTHON
}
"$mlc" compile "$out/silero.onnx" --shape input=1x576 --shape state=2x1x128 --state state=stateN -o "$out/silero.c"
${CC:-cc} -O2 -I"$out" "$here/main.c" "$out/silero.c" -o "$out/voice"
