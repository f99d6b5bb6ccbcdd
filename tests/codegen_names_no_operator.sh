#!/bin/sh
# codegen holds no text for an operator: no ONNX operator of onnx.def and no core operation of graph.def is named in it. Prints the lines that do.
#
# usage: codegen_names_no_operator.sh MLC. Words that are also names of scalar functions (scalar.def), statements or C are no operators here.
cd "$(dirname "$0")/.." || exit 2
mlc=$1
common='add|sub|mul|div|abs|neg|min|max|and|or|not|xor|mod|pow|exp|log|sqrt|floor|ceil|round|sign|sin|cos|tan|cast|if|loop|where|scan|map|view|size|shape|constant|call|check|const|dims|reduce|split|identity|equal|less|greater|range|string|sum|mean'
operators=$("$mlc" ops | sed 's/ .*//; s/.*\.//' | sort -u | grep -viE "^($common)\$" | paste -sd'|')
core=$(sed -n 's/^G(\([a-z]*\),.*/\1/p' ir/graph.def | grep -vE "^($common|random|gather|scatter|template|optional|concat|norm|contract|reshape)\$" | paste -sd'|')
if [ -z "$operators" ] || [ -z "$core" ]; then
    echo "no operators found"
    exit 2
fi
# Names in quotes or as identifiers; GOp values in any form.
found=$(
    grep -nwE "$operators" codegen/*.[ch] codegen/*.def 2>/dev/null
    grep -nE "\"($core)\"|G_[a-z]+" codegen/*.[ch] 2>/dev/null
)
[ -z "$found" ] && exit 0
echo "$found"
exit 1
