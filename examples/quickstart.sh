#!/bin/sh
# From a clean clone to a real model running as C: installs what is needed (Debian 12, root or sudo), builds mlc, compiles Magika's file-type model and
# asks it what the files of this repository are. Says how long each step took.
set -eu
cd "$(dirname "$0")/.."

step() { # TEXT COMMAND…
    text=$1
    shift
    begin=$(date +%s)
    "$@"
    echo "-- $text: $(($(date +%s) - begin)) s"
}

build() {
    cmake -S . -B build/quickstart -G Ninja -DMLC_TESTS=OFF >/dev/null
    ninja -C build/quickstart --quiet
}

step "set-up" sh tests/setup.sh build
step "building mlc" build
step "model -> C -> program" sh examples/filetype/build.sh build/quickstart/mlc build/quickstart/filetype
echo "file             kind         score    time"
build/quickstart/filetype/filetype README.md CMakeLists.txt examples/quickstart.sh cli/main.c tests/text_runner.py LICENSE \
    ir/graph.h build/quickstart/mlc build/quickstart/filetype/model.onnx
