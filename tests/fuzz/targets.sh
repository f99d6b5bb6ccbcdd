#!/bin/sh
# The libFuzzer targets fuzz_*.c, each for MLC_FUZZ_SECONDS (default 10) from MLC_FUZZ_SEED (default 1), from a corpus made of the tests' own files. A crash leaves its input as
# crash-*; make it a test when it is mended. BUILD: a build folder (for the protobuf reader); CLANG: the compiler.
cd "$(dirname "$0")/../.." || exit 2
clang=${CLANG:-clang}
folder=${BUILD:?}/fuzz
mkdir -p "$folder/objects" || exit 2
flags="-std=c11 -D_DEFAULT_SOURCE -O1 -g1 -ffp-contract=off -fno-strict-aliasing -fsanitize=address,undefined -fno-sanitize-recover=undefined"
objects=
for source in ir/*.c frontend/onnx/wire.c "$BUILD/onnx-proto/onnx.pb-c.c"; do
    object=$folder/objects/$(basename "$source").o
    objects="$objects $object"
    if [ -e "$object" ] && [ -z "$(find ir frontend -newer "$object" | head -n 1)" ]; then continue; fi
    # shellcheck disable=SC2086
    "$clang" $flags -fsanitize=fuzzer-no-link -I"$BUILD/onnx-proto" -c "$source" -o "$object" || exit 1
done

corpus() { # NAME: seeds of a target
    mkdir -p "$folder/$1"
    case $1 in
    graph) find tests -name '*.graph' -exec cp {} "$folder/$1" \; ;;
    loop) find tests passes -name '*.loop' -exec cp {} "$folder/$1" \; ;;
    expr) sed -n 's/.*body(\(.*\)) :.*/\1/p; s/.* = \([^{}]*\)$/\1/p' $(find tests -name '*.graph' -o -name '*.loop') | sort -u | head -n 300 |
        (cd "$folder/$1" && split -l 1 -a 4 - seed) ;;
    wire) find tests examples build "$BUILD" -name '*.onnx' -size -4k 2>/dev/null | sort | head -n 100 |
        { n=0; while read -r file; do cp "$file" "$folder/$1/$n"; n=$((n + 1)); done; } ;;
    esac
}

passed=0
failed=0
for target in graph loop expr wire; do
    # shellcheck disable=SC2086
    "$clang" $flags -fsanitize=fuzzer -I"$BUILD/onnx-proto" "tests/fuzz/fuzz_$target.c" $objects -lprotobuf-c -lm -o "$folder/fuzz_$target" || exit 1
    corpus $target
    if (cd "$folder" && "./fuzz_$target" -seed="${MLC_FUZZ_SEED:-1}" -max_total_time="${MLC_FUZZ_SECONDS:-10}" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=0 \
        -verbosity=0 -only_ascii=$([ $target = wire ] && echo 0 || echo 1) "$target" >"$target.log" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL fuzz_$target"
        grep -v "^INFO" "$folder/$target.log" | cut -c1-300 | head -n 30
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
