#!/bin/sh
# Compile only the given .pyx files in place. This takes seconds and is meant for development. Each module gets a file of
# its own, which takes precedence over the bundle (metatensor/_core/bundles.py). The next full build removes the file.
set -e
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
include=$("$PYTHON" -c "import sysconfig; print(sysconfig.get_path('include'))")
suffix=$("$PYTHON" -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
directives=$("$PYTHON" -c "import setup; print(','.join(f'{k}={v}' for k, v in setup.directives().items()))")
for pyx in "$@"; do
    stem=${pyx%.pyx}
    "$PYTHON" -m cython -3 --module-name "$(echo "$stem" | tr / .)" -X "$directives" -I . "$pyx" -o "$stem.c"
    gcc -shared -fPIC ${CFLAGS:--O1} -fno-strict-aliasing -ffp-contract=off -fno-math-errno \
        -fno-trapping-math -fwrapv -fvisibility=hidden \
        -Wno-unused-function -I "$include" -I . "$stem.c" -o "$stem.new"
    mv "$stem.new" "$stem$suffix"   # running processes keep the old file
done
