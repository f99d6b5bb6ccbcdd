#!/bin/sh
# Random graphs through every stage; see prop.c. 2,000 of them go through the evaluator, each pass and the interpreter, every fourth through LLVM and
# every sixteenth through C at -O0 and -O3. MLC_PROP holds other options: --all takes all through everything (12 minutes of two cores).
exec "$BUILD/tests/prop" $MLC_PROP "$@"
