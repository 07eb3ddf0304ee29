#!/usr/bin/env python3
"""Builds the Debian package, installs it, uses it, removes it. Skips where that is not possible or not wise.

usage: package_test.py SOURCE_DIR BUILD_DIR [EXAMPLE]
"""
import glob
import os
import shutil
import subprocess
import sys

SKIP = 77


def run(*command, **more):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    assert result.returncode == 0, f'{command}: {result.returncode}\n{result.stdout}'
    return result.stdout


def skip(why):
    print(why)
    sys.exit(SKIP)


def installed():
    state = subprocess.run(['dpkg-query', '-W', '-f', '${db:Status-Abbrev}', 'gpumem'], capture_output=True, text=True)
    return state.stdout.startswith('i')


def check_contents(deb, build):
    fields = run('dpkg-deb', '-f', deb)
    assert 'Package: gpumem\n' in fields and 'Depends: libc6' in fields, fields
    assert 'Recommends: python3-matplotlib\n' in fields, fields  # gpumem plot
    names = [line.split()[5] for line in run('dpkg-deb', '-c', deb).splitlines()]
    owners = {line.split()[1] for line in run('dpkg-deb', '-c', deb).splitlines()}
    assert owners == {'root/root'}, owners
    for name in ('./usr/bin/gpumem', './usr/include/gpumem.h', './usr/include/gpumem_residency.h', './usr/share/doc/gpumem/copyright'):
        assert name in names, (name, names)
    if any(n.endswith('/libgpumem.so') for n in names):
        assert any(n.endswith('/gpumem/sim/libcuda.so.1') for n in names), names
    sparse = os.path.exists(os.path.join(build, 'spgemm', 'libgpumem-spgemm.so.0'))
    for name in ('/libgpumem-spgemm.so.0', '/include/spgemm/spgemm.h', '/pkgconfig/gpumem-spgemm.pc'):
        assert any(n.endswith(name) for n in names) == sparse, (name, sparse)
    manuals = [n for n in names if '/man/man1/' in n and not n.endswith('/')]
    assert manuals and all(n.endswith('.gz') for n in manuals), manuals
    return [n[1:] for n in names if not n.endswith('/')]


def try_installed(example):
    version = run('/usr/bin/gpumem', '--version')
    assert version.startswith('gpumem '), version
    run('ldconfig', '-p')
    assert 'libgpumem-core.so.0' in run('ldconfig', '-p')
    if example:
        text = run('/usr/bin/gpumem', 'run', '--sim', '--', example)
        assert ' 0 wrong' in text or ' 0 bytes wrong' in text, text
        print(text)


def main(source, build, example=None):
    if not shutil.which('dpkg-deb'):
        skip('no dpkg-deb')
    run(os.path.join(source, 'tools', 'package'), '--no-setup', '--build', build)
    deb = max(glob.glob(os.path.join(build, 'gpumem_*.deb')), key=os.path.getmtime)
    names = check_contents(deb, build)
    if os.geteuid() != 0:
        skip('built and checked; installing it takes root')
    if installed() or any(os.path.exists(n) for n in names):
        skip('built and checked; a gpumem is installed here already, which is left alone')
    try:
        run('dpkg', '-i', deb)
        try_installed(example)
    finally:
        if installed():
            run('dpkg', '--purge', 'gpumem')
    left = [n for n in names if os.path.lexists(n)]
    assert not left, left


if __name__ == '__main__':
    main(*sys.argv[1:])
