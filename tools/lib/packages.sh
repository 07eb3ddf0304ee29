# Debian packages: which are missing, and how to get them. Sourced by tools/setup.

meson_oldest=1.0.1

has_header() { printf '#include <stddef.h>\n#include <stdarg.h>\n#include <setjmp.h>\n#include <%s>\n' "$1" |
    cc -E -x c - >/dev/null 2>&1; }
has_program() { command -v "$1" >/dev/null 2>&1; }
has_python() { python3 -c "import $1" >/dev/null 2>&1; }
has_meson() { version_at_least "$meson_version" $meson_oldest; }

# Queried once: starting meson takes half a second.
look_for_meson() { meson_version=$(meson --version 2>/dev/null || echo 0); }

# Prints what is missing, one package a line. A thing that is there by other means (own meson, own compiler) is not missing.
# $1: "pypi" when something must come from PyPI, so that python3-venv is needed too.
missing_packages() {
    has_program cc || echo gcc
    has_program g++ || echo g++
    has_program pkg-config || echo pkg-config
    has_program python3 || echo python3
    has_meson || [ -x "$venv/bin/meson" ] || echo meson
    has_program ninja || [ -x "$venv/bin/ninja" ] || echo ninja-build
    has_header stdio.h || echo libc6-dev
    has_header cmocka.h || echo libcmocka-dev
    has_header uthash.h || echo uthash-dev
    has_header xxhash.h || echo libxxhash-dev
    has_header elfutils/libdwfl.h || echo libdw-dev
    has_header jansson.h || echo libjansson-dev
    has_header zlib.h || echo zlib1g-dev
    has_header zstd.h || echo libzstd-dev
    has_header sqlite3.h || echo libsqlite3-dev
    has_header protobuf-c/protobuf-c.h || echo libprotobuf-c-dev
    has_program protoc-c || echo protobuf-c-compiler
    # read what gpumem export writes, in tests
    has_program protoc || echo protobuf-compiler
    has_program heaptrack_print || echo heaptrack
    # draws what gpumem plot shows; the system's own Python serves where another one is in front
    has_python matplotlib || /usr/bin/python3 -c 'import matplotlib' >/dev/null 2>&1 || echo python3-matplotlib
    # draws the curves in the pages of gpumem html
    [ -e /usr/share/javascript/dygraphs/dygraph.min.js ] || echo libjs-dygraphs
    if [ "$1" = pypi ] && ! [ -x "$venv/bin/pip" ]; then
        has_python ensurepip || echo python3-venv
    fi
}

# The peer that spgemm is measured beside; not every distribution has it, and everything is built without.
missing_peers() { has_header GraphBLAS.h || echo libgraphblas-dev; }

# What opens the pages of gpumem html in tests; see tests/unit/tools/browser.py.
has_browser() { has_program chromium || has_program chromium-browser || has_program google-chrome; }

has_mpi() { has_program mpicc && has_program mpirun; }

has_ucx() { python3 -c 'import ctypes; ctypes.CDLL("libucs.so.0")' 2>/dev/null; }

# What the sources are formatted with; another version formats them otherwise.
has_clang_format() {
    local program
    for program in clang-format-14 clang-format "$venv/bin/clang-format"; do
        ! "$program" --version 2>/dev/null | grep -q 'version 14\.' || return 0
    done
    return 1
}

# How apt-get is run here: "apt-get", "sudo -n apt-get", or nothing when it cannot be.
apt_command() {
    has_program apt-get || return 0
    if [ "$(id -u)" = 0 ]; then
        echo apt-get
    elif has_program sudo && sudo -n true 2>/dev/null; then
        echo sudo -n apt-get
    fi
}

# Installs the packages named; refreshes the package lists only when apt does not know one of them, or cannot get it.
apt_install() {
    local apt options='-y -q --no-install-recommends'
    read -r -a apt <<<"$(apt_command)"
    [ "${apt[0]}" != sudo ] || apt=(sudo -n env DEBIAN_FRONTEND=noninteractive apt-get)
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    if ! "${apt[@]}" install $options "$@" >"$build/.setup-apt.log" 2>&1 </dev/null; then
        quietly "$build/.setup-apt.log" packages "${apt[@]}" update -q || true
        quietly "$build/.setup-apt.log" packages "${apt[@]}" install $options "$@"
    fi
}

# meson and ninja from PyPI, for machines whose own are missing or too old.
venv_tools() {
    local wanted=()
    has_meson || wanted+=("meson>=$meson_oldest")
    has_program ninja || wanted+=(ninja)
    [ ${#wanted[@]} = 0 ] || venv_install "${wanted[@]}"
}

venv_make() {
    [ -x "$venv/bin/pip" ] || quietly "$build/.setup-venv.log" venv python3 -m venv "$venv"
}

venv_install() {
    venv_make && quietly "$build/.setup-pip.log" pypi "$venv/bin/pip" install -q --retries 1 --timeout 30 "$@"
}
