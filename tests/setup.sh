#!/bin/sh
# Everything the tests and the examples need on a fresh Debian 12: packages (as root or through sudo) and a Python environment in build/venv.
#
# usage: setup.sh [build | test]: `build` leaves out what only the tests need. Does nothing that is done already.
set -eu
cd "$(dirname "$0")/.."
what=${1:-test}

. ./versions.env
packages="gcc g++ cmake ninja-build pkg-config libc6-dev libprotobuf-c-dev protobuf-c-compiler libzip-dev check llvm-$LLVM_VERSION-dev
          python3 python3-venv python3-pip ca-certificates"
[ "$what" = test ] && packages="$packages clang clang-format-14 libclang-rt-14-dev valgrind qemu-system-arm qemu-user groff-base gcc-arm-none-eabi libnewlib-arm-none-eabi"

missing=
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    echo "installing:$missing"
    $sudo apt-get update -qq
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

[ "$what" = test ] || exit 0
wanted="onnx==$ONNX_VERSION numpy==$NUMPY_VERSION onnxruntime==$ONNXRUNTIME_VERSION"
venv=build/venv
if [ "$(cat $venv/installed.txt 2>/dev/null)" != "$wanted" ]; then
    python3 -m venv $venv
    # shellcheck disable=SC2086
    $venv/bin/python -m pip install -q --disable-pip-version-check $wanted
    echo "$wanted" >$venv/installed.txt
fi
