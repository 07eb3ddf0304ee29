# What the scripts in tools/ share; sourced, not run. Expects `set -eu` and sets root, build and the printing functions.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build

say() { printf '%-10s %s\n' "$1" "$2"; }
warn() { printf '%-10s %s\n' "$1" "$2" >&2; }
die() { warn "$1" "$2"; exit 1; }

# Runs a command quietly; its output is shown only when it fails. LOG WHAT COMMAND...
quietly() {
    local log=$1 what=$2 status=0
    shift 2
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ "$status" != 0 ]; then
        warn "$what" "failed (exit status $status): $*"
        # Of a build only what failed, not the files compiled meanwhile.
        grep -v '^\[[0-9]*/[0-9]*\] \(Compiling\|Linking\|Generating\)' "$log" | tail -n 40 >&2
    fi
    return "$status"
}

# "1.0.1" "1.0.0" -> true when the first is not older.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Why programs cannot be run under gpumem from this build folder; nothing where they can.
why_not_from() {
    case $1 in *[[:space:]:]*) echo "$1 has a colon or blank in its path, which LD_PRELOAD cannot hold; --build names another build folder" ;; esac
}

# The tools that tools/setup chose: meson, ninja, cuda (toolkit folder or empty).
load_setup() {
    # shellcheck disable=SC1091
    . "$build/.setup.env"
    PATH=$tool_path$PATH
    export PATH
}
