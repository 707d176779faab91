#!/bin/sh
# Runs all that waits for a machine with a card (a GPU):
#     tools/gpu.sh --prepare DIR          where a compiler and a network are: wheels of leat and of what tests need
#     tools/gpu.sh OUT [--wheels DIR] [--without-card] [--budget-s S]
#                                         where a card and Python with PyTorch are: OUT/gpu.json and OUT/gpu.txt
# DIR is build/gpu unless given; without wheels there, or with "none", the leat of that Python runs. PYTHON names one
# that is not python3.
# Exit codes: 0 all ran and passed; 1 something failed or was left out; 2 there is no card, or nothing can run.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}

die() {
    printf 'leat: %s\n' "$*" >&2
    exit 2
}

case ${1-} in
--prepare)
    dir=${2:-$here/build/gpu}
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    [ -x "$here/.venv/bin/auditwheel" ] || sh "$here/tools/setup.sh" wheel "$python" ''
    exec "$here/.venv/bin/python" "$here/tools/gpu.py" prepare "$dir"
    ;;
'' | -*)
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac

out=$1 wheels='' more=''
shift
while [ $# -gt 0 ]; do
    case $1 in
    --wheels)
        wheels=${2:?a folder follows --wheels}
        shift
        ;;
    --without-card | --budget-s | [0-9]*) more="$more $1" ;;
    *) die "no such option: $1" ;;
    esac
    shift
done
if [ -z "$wheels" ] && [ -d "$here/build/gpu" ]; then
    wheels=$here/build/gpu
fi
"$python" -c 'import torch' 2>/dev/null || die "$python has no PyTorch; PYTHON names another one"
if [ "$wheels" ] && [ "$wheels" != none ]; then
    # A folder, not a virtual environment: one made from another does not see the packages there.
    site=$(mktemp -d)
    trap 'rm -rf "$site"' EXIT
    if "$python" -c 'import pip' 2>/dev/null; then
        "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile --no-cache-dir \
            --target "$site" "$wheels"/*.whl || die "the wheels of $wheels cannot be installed"
    else # as in environments of uv
        for wheel in "$wheels"/*.whl; do
            "$python" -m zipfile -e "$wheel" "$site" || die "$wheel cannot be unpacked"
        done
    fi
    export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
    set -- --wheels "$wheels"
fi
# shellcheck disable=SC2086
"$python" "$here/tools/gpu.py" run "$out" "$@" $more
