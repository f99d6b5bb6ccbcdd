#!/bin/sh
# Every optimisation switched off in turn: each pass that `mlc passes` lists as one that can be, on 150 of the ONNX node cases (others for each pass),
# through C and LLVM; the results must be the package's. `run.sh --cases=N` takes N of them (9999: all). What models do without each pass is
# `tests/models/run.sh --each-pass`.
set -u
cd "$(dirname "$0")/../.." || exit 2
some=150
case ${1:-} in --cases=*) some=${1#--cases=} ;; esac
cases=$BUILD/onnx-cases
[ -e "$cases/cases.txt" ] || "$PYTHON" -W ignore tests/onnx/generate.py "$cases" || exit 2
good=0
bad=0
shift=0
for pass in $("$MLC" passes | awk '$3 != "always" && !seen[$2]++ { print $2 }'); do
    text=$("$BUILD/tests/conform" --list=tests/onnx/passing.txt --special=tests/onnx/special.txt "--sample=$some:$shift" "--disable=$pass" \
        --stages=c,llvm "--cc=cc -O0" "--jobs=${MLC_JOBS:-$(nproc)}" "$cases")
    echo "$text" | sed "s/^/without $pass: /"
    set -- $(echo "$text" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p')
    good=$((good + ${1:-0}))
    bad=$((bad + ${2:-1}))
    shift=$((shift + 97))
done
echo "$good passed, $bad failed"
[ $bad = 0 ] && [ $good -gt 0 ]
