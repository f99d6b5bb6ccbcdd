#!/bin/sh
# Replay: the C that mlc writes for each graph here is hashed and compared with hashes.txt.
# A refactor leaves all hashes as they are; a feature updates them (run.sh --update) and its commit says why. Each graph is compiled twice: the
# bytes must be the same. MLC is the command under test.
cd "$(dirname "$0")" || exit 2
unset XDG_CACHE_HOME
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
passed=0
failed=0
: >"$temp/hashes"

fail() {
    echo "FAIL $1: $2"
    failed=$((failed + 1))
}

replay() { # NAME TARGET
    id="$1 $2"
    if ! "$MLC" compile "$1" "--target=$2" -o - >"$temp/one.c" 2>"$temp/log"; then
        fail "$id" "$(head -n 1 "$temp/log")"
        return
    fi
    "$MLC" compile "$1" "--target=$2" -o - >"$temp/two.c" 2>"$temp/log"
    if ! cmp -s "$temp/one.c" "$temp/two.c"; then
        fail "$id" "two compilations differ: $(cmp "$temp/one.c" "$temp/two.c")"
        return
    fi
    hash=$(sha256sum <"$temp/one.c" | cut -c1-32)
    echo "$1 $2 $hash" >>"$temp/hashes"
    [ "$update" ] && return
    was=$(sed -n "s/^$1 $2 //p" hashes.txt)
    if [ "$hash" = "$was" ]; then
        passed=$((passed + 1))
    else
        fail "$id" "the emitted C has hash $hash, expected ${was:-none}"
    fi
}

update=
[ "$1" = --update ] && update=1
for graph in *.graph; do
    replay "$graph" generic
done
for graph in mlp.graph conv.graph; do
    replay "$graph" x86-64-v3
done
if [ "$update" ]; then
    [ $failed = 0 ] && cp "$temp/hashes" hashes.txt && echo "hashes.txt is written"
    exit $((failed > 0))
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
