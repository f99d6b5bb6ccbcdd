#!/bin/sh
# All tests, from a fresh Debian 12 (root or sudo): sets up, builds with gcc, with clang and with the sanitizers, runs everything.
#
# usage: run.sh [PART…] runs only the named parts (after the builds); MLC_JOBS=N sets the number of jobs (default: the number of cores).
# A part is a command whose last line is "N passed, N failed", or which is one test that passes with status 0. Folders tests/*/run.sh are
# parts too: they get MLC (the command), BUILD and SANITIZED (build folders) and PYTHON (with onnx, numpy, onnxruntime) in the environment.
# Says how long each part takes; the last line is "N passed, N failed" of all parts.
cd "$(dirname "$0")/.." || exit 2
root=$PWD
jobs=${MLC_JOBS:-$(nproc)}
only=" $* "
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

part() { # NAME COMMAND…
    name=$1
    shift
    [ "$only" = "  " ] || case $only in *" $name "*) ;; *) return 0 ;; esac
    begin=$(date +%s)
    "$@" >"$log" 2>&1
    status=$?
    counts=$(tail -n 1 "$log" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p')
    if [ -z "$counts" ]; then
        if [ $status = 0 ]; then counts="1 0"; else counts="0 1"; fi
    elif [ $status != 0 ] && [ "${counts#* }" = 0 ]; then
        counts="${counts% *} 1"
    fi
    if [ "${counts#* }" != 0 ]; then tail -n 60 "$log" | cut -c1-400; else grep -v ' passed, ' "$log" | tail -n 4 | cut -c1-200; fi
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
    echo "== $name: ${counts% *} passed, ${counts#* } failed, $(($(date +%s) - begin)) s"
}

always() { # like part, whatever was asked for; a failure ends the run
    kept=$only
    only="  "
    before=$failed
    part "$@"
    only=$kept
    if [ $failed != "$before" ]; then
        echo "$passed passed, $failed failed"
        exit 1
    fi
}

build() { # FOLDER CMAKE-OPTIONS…
    folder=$1
    shift
    cmake -S . -B "$folder" -G Ninja "-DMLC_ONNX_PROTO=$PROTO" "$@" >/dev/null && ninja -C "$folder" --quiet -j "$jobs"
}

unit() { # FOLDER of built tests
    good=0
    bad=0
    for test in "$1"/tests/test_*; do
        [ -x "$test" ] || continue
        if "$test" >"$log.unit" 2>&1; then
            good=$((good + 1))
        else
            bad=$((bad + 1))
            echo "FAIL $test"
            tail -n 30 "$log.unit"
        fi
    done
    rm -f "$log.unit"
    echo "$good passed, $bad failed"
}

always setup sh tests/setup.sh test
PYTHON=$root/build/venv/bin/python
PROTO=$("$PYTHON" -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "onnx.proto"))')
BUILD=$root/build/release
SANITIZED=$root/build/sanitize
MLC=$BUILD/mlc
export PYTHON BUILD SANITIZED MLC
always build-gcc build "$BUILD" -DCMAKE_C_COMPILER=gcc
always build-sanitize build "$SANITIZED" -DCMAKE_C_COMPILER=gcc -DMLC_SANITIZE=ON
part build-clang build build/clang -DCMAKE_C_COMPILER=clang
part build-without-llvm build build/no-llvm -DCMAKE_C_COMPILER=gcc -DMLC_LLVM=OFF -DMLC_TESTS=OFF
part format ninja -C "$BUILD" --quiet format-check
part include-rule sh tests/include_rule.sh
part codegen-names-no-operator sh tests/codegen_names_no_operator.sh "$MLC"
part unit unit "$BUILD"
part unit-sanitize unit "$SANITIZED"
part text "$PYTHON" tests/text_runner.py "--mlc=$MLC"
part text-sanitize "$PYTHON" tests/text_runner.py "--mlc=$SANITIZED/mlc"
for script in tests/*/run.sh; do
    [ -e "$script" ] && part "$(basename "$(dirname "$script")")" sh "$script"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
