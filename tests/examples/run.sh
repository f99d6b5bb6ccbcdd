#!/bin/sh
# The examples build, run and say what they are expected to. MLC, BUILD in the environment.
set -u
cd "$(dirname "$0")/../.." || exit 2
passed=0
failed=0

filetype() { # FOLDER
    "$1/filetype" README.md CMakeLists.txt examples/quickstart.sh cli/main.c tests/text_runner.py LICENSE | awk '{ print $1, $2 }'
}
voice() {
    "$1/voice" "$1/ready.wav" "$1/tone.wav"
}
text() {
    "$1/text" "$1/picture.ppm"
}
similarity() {
    tr '\n' '\0' <examples/similarity/sentences.txt | xargs -0 "$1/similarity" "$1/vocabulary.txt"
}

for name in filetype voice text similarity; do
    out=$BUILD/examples/$name
    if sh "examples/$name/build.sh" "$MLC" "$out" && $name "$out" >"$out/found.txt" && diff "examples/$name/expected.txt" "$out/found.txt"; then
        passed=$((passed + 1))
    else
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
