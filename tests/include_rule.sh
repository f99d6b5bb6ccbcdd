#!/bin/sh
# The include rule: data flows one way (README.md, "The house"). Prints each include that breaks it; status 1 when there is one.
#
# A row is FOLDER ALLOWED…: sources of FOLDER may include headers whose path from the root begins with one of ALLOWED.
cd "$(dirname "$0")/.." || exit 2

alphabet='ir/base.h ir/type.h ir/dim.h ir/expr.h ir/strip.h ir/isa.h ir/target.h ir/dtype.def ir/scalar.def'
rules="
ir ir/
frontend $alphabet ir/graph frontend/
passes/graph $alphabet ir/graph passes/passes.h passes/passes.def passes/select.h passes/graph/
passes/lower $alphabet ir/graph ir/loop passes/passes.h passes/passes.def passes/select.h passes/lower/
passes/loop $alphabet ir/loop passes/passes.h passes/passes.def passes/select.h passes/loop/
passes $alphabet passes/
codegen $alphabet ir/loop codegen/ runtime/abi.h
runtime runtime/
cli cli/ ir/ frontend/frontend.h passes/passes.h codegen/codegen.h runtime/
"

# The header's path from the root, for an include written in a file of the folder.
resolve() { # FOLDER INCLUDE
    if [ -e "$1/$2" ]; then realpath --relative-to=. "$1/$2"; else echo "$2"; fi
}

allowed() { # PATH ALLOWED…
    path=$1
    shift
    for prefix; do
        case $path in "$prefix"*) return 0 ;; esac
    done
    return 1
}

check_folder() { # FOLDER ALLOWED…
    folder=$1
    shift
    find "$folder" -name '*.[ch]' -o -name '*.def' | sort | while read -r file; do
        # Sub-folders with a rule of their own are checked there.
        dir=$(dirname "$file")
        [ "$folder" = passes ] && [ "$dir" != passes ] && continue
        sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$file" | while read -r include; do
            case $include in *.pb-c.h) [ "$folder" = frontend ] && continue ;; esac
            path=$(resolve "$dir" "$include")
            allowed "$path" "$@" || echo "$file: includes $path"
        done
    done
}

# The Graph and the Program never meet below passes/lower.
check_pair() { # PATTERN-OF-FILES FORBIDDEN
    find ir -name "$1" | sort | while read -r file; do
        grep -q "^ *# *include *\"$2\"" "$file" && echo "$file: includes ir/$2"
    done
}

broken=$(
    echo "$rules" | while read -r folder allowed; do
        # shellcheck disable=SC2086
        [ -n "$folder" ] && [ -d "$folder" ] && check_folder "$folder" $allowed
    done
    check_pair 'graph*' loop.h
    check_pair 'loop*' graph.h
    # codegen prints; it must not see protobuf either.
    grep -rl --include='*.[ch]' 'pb-c\.h' ir passes codegen cli runtime 2>/dev/null | sed 's/$/: includes protobuf outside of the frontend/'
)
[ -z "$broken" ] && exit 0
echo "$broken"
exit 1
