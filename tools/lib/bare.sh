#!/usr/bin/env bash
# tools/test --bare: makes a bare Debian in a folder and runs both commands of the README in it. The arguments are those of
# tools/test in there. It runs a second time in namespaces of its own (--inside), so that mounts and processes end with it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

source_folder=/root/gpumem # an unpacked archive, without history, where no other user may enter
settings=()                # NAME=VALUE of the machine's package index and proxies

skip() {
    echo "0 passed, 0 failed, 1 skipped: --bare $1"
    exit 77
}

# Copies a file or folder into /machine of the bare one, where no package overwrites it, as ca-certificates would its own bundle.
take() {
    [ -e "$1" ] || return 0
    mkdir -p "$machine/machine$(dirname "$1")"
    cp -rLT "$1" "$machine/machine$1" 2>/dev/null || true # links into nowhere stay behind
}

# The machine's release where it is one that debootstrap knows.
choose_release() {
    release=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}") || true
    [ -n "$release" ] && [ -e "/usr/share/debootstrap/scripts/$release" ] || release=stable
}

# "URI SUITE COMPONENT" a line: where the machine's apt has this release from. Nothing: debootstrap uses its default.
sources() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        grep "^http[^ ]* $release\(-[a-z]*\)\? " | sort -u || true
}

# Packages come from where the machine's own come from.
hand_over_apt() {
    local found
    found=$(sources)
    [ -z "$found" ] || sed 's/^/deb /' <<<"$found" >"$machine/etc/apt/sources.list"
    ! command -v apt-config >/dev/null || apt-config dump Acquire >"$machine/etc/apt/apt.conf.d/50machine"
    cp -L /etc/resolv.conf /etc/hosts "$machine/etc/"
    echo force-unsafe-io >"$machine/etc/dpkg/dpkg.cfg.d/50machine" # nothing here has to outlast a power failure
}

# Wheels, too: variables and files of pip, and what they name.
hand_over_pip() {
    local name file
    for name in $(compgen -e); do
        case $name in
        PIP_* | http_proxy | https_proxy | no_proxy | HTTP_PROXY | HTTPS_PROXY | NO_PROXY | SSL_CERT_FILE | SSL_CERT_DIR | REQUESTS_CA_BUNDLE)
            case ${!name} in
            /*) take "${!name}"; settings+=("$name=/machine${!name}") ;;
            *) settings+=("$name=${!name}") ;;
            esac
            ;;
        esac
    done
    for file in /etc/pip.conf /etc/xdg/pip/pip.conf "$HOME/.pip/pip.conf" "$HOME/.config/pip/pip.conf"; do
        [ -e "$file" ] || continue
        while read -r name; do take "$name"; done < <(sed -n 's/^ *[a-z-]* *[=:] *\(\/.*\)$/\1/p' "$file")
        mkdir -p "$machine$(dirname "${file/#$HOME//root}")"
        sed 's/^\( *[a-z-]* *[=:] *\)\//\1\/machine\//' "$file" >"$machine${file/#$HOME//root}"
    done
}

copy_source() {
    mkdir -p "$machine$source_folder"
    cd "$root"
    tools/lib/tree.py . | tar --null -cf - -T - | tar -xf - -C "$machine$source_folder"
}

# Runs a command of the README. `took`: how long it took, `last`: the last line that it printed.
in_machine() {
    local begin=$SECONDS status=0
    say bare "$*"
    chroot "$machine" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${settings[@]+"${settings[@]}"} /bin/bash -c 'cd "$1" && shift && exec "$@"' bash "$source_folder" "$@" \
        </dev/null 2>&1 | tee "$machine/output" || status=$?
    took="$(((SECONDS - begin) / 60)) min $(((SECONDS - begin) % 60)) s"
    last=$(tail -n 1 "$machine/output")
    return "$status"
}

inside() {
    local mirror packages=() demo_took status=0
    choose_release
    mirror=$(sources | sed -n "s/^\([^ ]*\) $release .*/\1/p" | head -n 1)
    case $mirror in https:*) packages=(--include=ca-certificates) ;; esac
    say bare "debootstrap --variant=minbase $release${mirror:+ $mirror}"
    quietly "$machine.log" bare debootstrap --variant=minbase ${packages[@]+"${packages[@]}"} "$release" "$machine" ${mirror:+"$mirror"} ||
        skip "cannot have $release: $(tail -n 1 "$machine.log")"
    hand_over_apt
    hand_over_pip
    copy_source
    # As a machine has them; without, tests that need one are skipped.
    mount -t proc proc "$machine/proc" || skip "cannot mount /proc"
    mount -t sysfs -o ro sysfs "$machine/sys" || true
    mount -t tmpfs -o mode=1777 tmpfs "$machine/dev/shm" || true
    if mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$machine/dev/pts"; then
        ln -sf pts/ptmx "$machine/dev/ptmx"
    fi
    if ! in_machine tools/demo; then
        echo "0 passed, 1 failed, 0 skipped: tools/demo in a bare $release: $last"
        exit 1
    fi
    demo_took=$took
    in_machine tools/test "$@" || status=$?
    say bare "$release: tools/demo $demo_took, tools/test $took"
    echo "$last"
    exit "$status"
}

clean_up() {
    trap '' INT TERM
    [ -z "$running" ] || kill -KILL "$running" 2>/dev/null || true # the first process of the namespace goes with it, and so all
    wait
    rm -rf --one-file-system "$machine" "$machine.log"
}

if [ "${1:-}" = --inside ]; then
    machine=$2
    shift 2
    inside "$@"
fi
[ "$(id -u)" = 0 ] || skip "needs root"
command -v debootstrap >/dev/null || skip "needs debootstrap: apt-get install debootstrap"
unshare --mount --pid --fork --kill-child true 2>/dev/null || skip "needs namespaces of its own, which are refused here"
machine=$(mktemp -d "${TMPDIR:-/var/tmp}/gpumem-bare.XXXXXX")
chmod 755 "$machine"
running=
trap clean_up EXIT
trap 'exit 1' INT TERM
unshare --mount --pid --fork --kill-child bash "${BASH_SOURCE[0]}" --inside "$machine" "$@" &
running=$!
status=0
wait "$running" || status=$?
running=
exit "$status"
