#!/usr/bin/env python3
"""Installs into a folder, uses what is there, removes it again.

usage: install_test.py BUILD_DIR MESON CC have_cuda|no_cuda [EXAMPLE]
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

import elf

# C and C++. Calls that need no driver; a region cannot be had without one.
PROGRAM = """
#include <gpumem.h>
#include <gpumem_residency.h>
#include <gpumem_resource.h>
#include <stdio.h>
int main(void) {
    struct gpumem_block block;
    block.struct_size = sizeof block;
    enum gpumem_status status = gpumem_block_of(&block, &block);
    printf("%s %d.%d.%d %s %d\\n", gpumem_version(), GPUMEM_VERSION_MAJOR, GPUMEM_VERSION_MINOR, GPUMEM_VERSION_PATCH,
           gpumem_status_name(status), gpumem_last_error()[0] != 0);
    return gpumem_live_count() != 0;
}
"""


def run(*command, **more):
    result = subprocess.run(command, capture_output=True, text=True, **more)
    assert result.returncode == 0, f'{command}: {result.returncode}\n{result.stdout}{result.stderr}'
    return result.stdout


@contextlib.contextmanager
def log_kept(build):
    """`meson install` replaces the log that a later uninstall of the user's own installation needs."""
    log = os.path.join(build, 'meson-logs', 'install-log.txt')
    with tempfile.TemporaryDirectory() as folder:
        kept = shutil.copy2(log, folder) if os.path.exists(log) else None
        try:
            yield
        finally:
            if kept:
                shutil.copy2(kept, log)
            elif os.path.exists(log):
                os.remove(log)


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


def check_library(names, root, base):
    """NAME.so -> NAME.so.0 -> NAME.so.VERSION, with the SONAME that the link in the middle stands for."""
    found = [n for n in names if os.path.basename(n).startswith(base + '.so')]
    real = [n for n in found if not os.path.islink(os.path.join(root, n))]
    assert len(real) == 1 and len(found) == 3, found
    soname = elf.dynamic(os.path.join(root, real[0]), 'SONAME')
    assert soname == [base + '.so.0'], soname
    assert sorted(os.path.basename(n) for n in found)[:2] == [base + '.so', base + '.so.0'], found
    for n in found:
        assert os.path.realpath(os.path.join(root, n)) == os.path.join(root, real[0]), n
    return os.path.dirname(os.path.join(root, real[0]))


def one(names, pattern):
    match = [n for n in names if re.search(pattern, n)]
    assert match, f'no {pattern} among {names}'
    return match[0]


def check_pkg_config(root, names, cc, libdir, version):
    pc = os.path.dirname(os.path.join(root, one(names, r'/pkgconfig/gpumem\.pc$')))
    env = dict(os.environ, PKG_CONFIG_LIBDIR=pc, PKG_CONFIG_SYSROOT_DIR=root)
    assert run('pkg-config', '--modversion', 'gpumem', env=env).strip() == version
    flags = run('pkg-config', '--cflags', '--libs', 'gpumem', env=env).split()
    languages = {'a.c': cc, 'a.cpp': [shutil.which('c++')]}
    if not shutil.which('c++'):
        print('no C++ compiler here: C only')
        del languages['a.cpp']
    for name, compiler in languages.items():
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, name), os.path.join(folder, 'a')
            with open(source, 'w') as out:
                out.write(PROGRAM)
            run(*compiler, '-Wall', '-Wextra', '-Werror', '-pedantic', '-o', program, source, *flags)
            printed = run(program, env=dict(os.environ, LD_LIBRARY_PATH=libdir))
        assert printed.split() == [version, version, 'GPUMEM_NOT_FOUND', '1'], printed


SPGEMM = '''#include <spgemm/spgemm.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    struct gpumem_spgemm_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.precision = 7;
    struct gpumem_spgemm *multiplier;
    enum gpumem_status status = gpumem_spgemm_create(&options, &multiplier);
    gpumem_spgemm_destroy(NULL);
    printf("%s %s\\n", gpumem_status_name(status), gpumem_spgemm_last_error());
    return 0;
}
'''


def check_spgemm(root, names, cc, libdir):
    library = os.path.join(libdir, 'libgpumem-spgemm.so')
    for name in elf.dynamic(library, 'NEEDED'):  # neither CUDA nor the C++ and OpenMP runtimes
        assert re.match(r'(libgpumem-core|lib(c|m|dl|pthread|rt)|ld-linux[\w-]*)\.so\.', name), name
    leaked = [s.name for s in elf.symbols(library) if s.defined and not s.name.startswith('gpumem_spgemm_')]
    assert not leaked, leaked
    pc = os.path.dirname(os.path.join(root, one(names, r'/pkgconfig/gpumem-spgemm\.pc$')))
    env = dict(os.environ, PKG_CONFIG_LIBDIR=pc, PKG_CONFIG_SYSROOT_DIR=root)
    flags = run('pkg-config', '--cflags', '--libs', 'gpumem-spgemm', env=env).split()
    with tempfile.TemporaryDirectory() as folder:
        for name, compiler in (('a.c', cc), ('a.cpp', [shutil.which('c++')])):
            source, program = os.path.join(folder, name), os.path.join(folder, 'a')
            with open(source, 'w') as out:
                out.write(SPGEMM)
            run(*compiler, '-Wall', '-Wextra', '-Werror', '-pedantic', '-o', program, source, *flags)
            printed = run(program, env=dict(os.environ, LD_LIBRARY_PATH=libdir))
            assert printed == ('GPUMEM_INVALID_VALUE precision 7 is not 0 (double), 1 (float), 2 (complex double), 3 (complex float), '
                               '4 (pattern), 5 (min-plus double) or 6 (min-plus float)\n'), printed


def check_simulated_cuda(names, gpumem, libdir, example):
    """Installed where no linker looks, and used by the installed tool."""
    for name in ('libcuda.so.1', 'libcudart.so.13'):
        assert re.search(r'/gpumem/sim/' + name, one(names, '/' + name + '$')), names
    one(names, r'/include/gpumem/simcuda\.h$')
    searched = run(gpumem, 'run', '--sim', '--', 'sh', '-c', 'echo "$LD_LIBRARY_PATH"', env=clean_environment())
    assert searched.split(':')[0].strip() == os.path.join(libdir, 'gpumem', 'sim'), searched
    if example:
        text = run(gpumem, 'run', '--sim', '--policy', 'active-list', '--', example, env=clean_environment())
        assert ' 0 wrong' in text or ' 0 bytes wrong' in text, text


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(('LD_', 'GPUMEM_', 'SIMCUDA_'))}


def main(build, meson, cc, cuda, example=None):
    with tempfile.TemporaryDirectory() as folder, log_kept(build):
        root = os.path.realpath(folder)
        run(*meson.split('|'), 'install', '-C', build, '--no-rebuild', '--destdir', root)
        names = files_below(root)
        gpumem = os.path.join(root, one(names, r'/bin/gpumem$'))
        version = run(gpumem, '--version').split()[-1]
        libdir = check_library(names, root, 'libgpumem-core')
        one(names, r'/libgpumem-core\.a$')
        for header in ('gpumem', 'gpumem_resource', 'gpumem_plug'):
            one(names, rf'/include/{header}\.h$')
        for header in ('gpumem', 'gpumem_error', 'gpumem_resource'):
            one(names, rf'/include/{header}\.hpp$')
        one(names, r'/man/man1/gpumem\b.*\.1')
        one(names, r'/bash-completion/completions/gpumem$')
        check_pkg_config(root, names, cc.split('|'), libdir, version)
        if any('gpumem-spgemm' in n for n in names):
            check_library(names, root, 'libgpumem-spgemm')
            check_spgemm(root, names, cc.split('|'), libdir)
        if cuda == 'have_cuda':
            check_library(names, root, 'libgpumem')
            # The preloaded library must be the installed one: its address map is the witness.
            maps = run(gpumem, 'run', '--', 'cat', '/proc/self/maps')
            assert os.path.join(libdir, 'libgpumem.so') in maps, maps
            check_simulated_cuda(names, gpumem, libdir, example)
        run('ninja', '-C', build, 'uninstall')
        assert files_below(root) == [], files_below(root)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
