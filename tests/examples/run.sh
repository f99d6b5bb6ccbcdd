#!/bin/sh
# The examples build, run and say what they are expected to.
set -u
cd "$(dirname "$0")/../.." || exit 2
out=$BUILD/examples/filetype
sh examples/filetype/build.sh "$MLC" "$out" || exit 1
"$out/filetype" README.md CMakeLists.txt examples/quickstart.sh cli/main.c tests/text_runner.py LICENSE | awk '{ print $1, $2 }' >"$out/found.txt"
diff examples/filetype/expected.txt "$out/found.txt"
