#!/bin/sh
# Random graphs through every stage; see prop.c. MLC_PROP holds other options, such as --seeds=1..5000.
exec "$BUILD/tests/prop" $MLC_PROP "$@"
