# The headers of fast_matrix_market, from PyPI, as Debian has no package of them. Sourced by tools/setup.

installed_matrix_market() {
    printf '#include <fast_matrix_market/types.hpp>\n' | c++ -E -x c++ -std=c++17 - >/dev/null 2>&1
}

# True when the folder was made of what is wanted now.
is_matrix_market() { cmp -s "$root/tools/lib/matrix_market.txt" "$1/wanted.txt"; }

has_matrix_market() { installed_matrix_market || is_matrix_market "$build/.matrix-market"; }

# Puts the headers and their licence into the folder.
fetch_matrix_market() {
    local stage=$1.new
    unpack_matrix_market "$1" "$stage" && return
    rm -rf "$stage"
    return 1
}

unpack_matrix_market() {
    local target=$1 stage=$2
    rm -rf "$stage"
    mkdir -p "$stage/download" || return
    venv_make || return
    quietly "$build/.setup-pip.log" pypi "$venv/bin/pip" download -q --retries 1 --timeout 30 --no-deps \
        --no-binary fast_matrix_market --dest "$stage/download" -r "$root/tools/lib/matrix_market.txt" || return
    tar -xzf "$stage"/download/*.tar.gz -C "$stage" --strip-components=3 --wildcards '*/fast_matrix_market/include/*' || return
    tar -xzf "$stage"/download/*.tar.gz -C "$stage" --strip-components=1 --wildcards '*/LICENSE.txt' || return
    rm -rf "$stage/download" "$target"
    cp "$root/tools/lib/matrix_market.txt" "$stage/wanted.txt"
    mv "$stage" "$target"
}
