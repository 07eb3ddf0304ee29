#!/usr/bin/env python3
"""Builds the Python wheel, installs it into a fresh virtual environment without network, and uses it there.

usage: wheel_test.py SOURCE_DIR BUILD_DIR [EMULATED TEST]
       EMULATED: the library of sparse products for an emulated device, if the build folder has it; TEST: test_sparse.py
"""
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import elf

SKIP = 77
# What a user's script does, reduced to calls of the CUDA runtime.
PROGRAM = """
import ctypes
runtime = ctypes.CDLL("libcudart.so.13")
kept, freed = ctypes.c_void_p(), ctypes.c_void_p()
for block, size in ((kept, 3 << 20), (freed, 1 << 20)):
    assert runtime.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(size)) == 0
assert runtime.cudaFree(freed) == 0
from gpumem import plug
plug.use("limit(2GiB,async)")
plug.free(plug.allocate(4096, 0), 4096, 0)
print("trained")
"""
USER = {'HOME': '/nonexistent', 'LANG': 'C', 'PIP_NO_INDEX': '1', 'PIP_DISABLE_PIP_VERSION_CHECK': '1'}


def run(*command, **more):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    assert result.returncode == 0, f'{command}: {result.returncode}\n{result.stdout}'
    return result.stdout


def check_contents(wheel, folder):
    """The tag promises a version of glibc and nothing else: no file may need more."""
    promised = tuple(map(int, re.search(r'-py3-none-manylinux_(\d+)_(\d+)_\w+\.whl$', wheel).groups()))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        names = archive.namelist()
    newest = (2, 17)
    for path in [os.path.join(folder, name) for name in names]:
        with open(path, 'rb') as file:
            if file.read(4) != b'\x7fELF':
                continue
        for library in elf.dynamic(path, 'NEEDED'):
            beside = os.path.exists(os.path.join(os.path.dirname(path), library))
            assert beside or re.match(r'(lib(c|m|dl|pthread|rt)|ld-linux[\w-]*)\.so\.', library), f'{path} needs {library}'
        versions = [re.fullmatch(r'GLIBC_(\d+)\.(\d+)[\d.]*', version) for version in elf.needed_versions(path)]
        newest = max([newest, *((int(v[1]), int(v[2])) for v in versions if v)])
    assert newest == promised, f'{wheel} needs glibc {newest}'
    assert newest <= (2, 28) or os.uname().machine != 'x86_64', f'{wheel} needs glibc {newest}, and promises 2.28'
    licences = [name for name in names if '/licenses/' in name]
    assert any(name.endswith('/LICENSE') for name in licences), names


def try_installed(wheel, folder, build, sparse):
    venv, program, trace = (os.path.join(folder, name) for name in ('venv', 'train.py', 't.trace'))
    run(sys.executable, '-m', 'venv', venv)
    here = dict(USER, PATH=f'{venv}/bin:/usr/bin:/bin')  # no compiler is named and none is needed
    run(f'{venv}/bin/pip', 'install', wheel, env=here)
    gpumem = f'{venv}/bin/gpumem'
    version = run(gpumem, '--version', env=here)
    assert version == f"gpumem {os.path.basename(wheel).split('-')[1]}\n", version
    pathlib.Path(program).write_text(PROGRAM)
    text = run(gpumem, 'run', '--sim', f'--trace={trace}', '--', 'python', program, env=here)
    assert text.startswith('trained\n') and re.search(r'leaked +3.00 MiB', text), text
    report = run(gpumem, 'report', trace, env=here)
    assert 'cuMemAlloc' in report and '3.00 MiB' in report, report
    assert run(f'{venv}/bin/python', '-m', 'gpumem', '--version', env=here) == version
    loaded = run(f'{venv}/bin/python', '-c', 'import ctypes, gpumem; core = ctypes.CDLL(gpumem.core_library());'
                 'core.gpumem_version.restype = ctypes.c_char_p; print(core.gpumem_version().decode())', env=here)
    assert version == f'gpumem {loaded}', loaded
    for page in ('man1/gpumem.1', 'man7/libgpumem.7'):
        assert os.path.exists(f'{venv}/share/man/{page}'), page
    if sparse:
        try_sparse(venv, here, build, *sparse)
    before = set(glob.glob(f'{venv}/**', recursive=True))
    run(f'{venv}/bin/pip', 'uninstall', '-y', 'gpumem', env=here)
    left = [path for path in before if 'gpumem' in path and os.path.isfile(path)]
    assert not left, left


def try_sparse(venv, here, build, emulated, test):
    """The library of the package is found and loads. No kernel runs here, so the emulated library in its place multiplies."""
    library, = glob.glob(f'{venv}/lib/python*/site-packages/gpumem/lib/libgpumem-spgemm.so.0')
    no_device = ('from gpumem import sparse; print(sparse._library._name)\n'
                 'try: sparse.Multiplier()\nexcept ValueError as error: print(error)')
    bindings = dict(here, LD_DEBUG='bindings', LD_BIND_NOW='1', LD_DEBUG_OUTPUT=f'{venv}/bindings')
    for under in ([], ['gpumem', 'run', '--']):
        name, error = run(*under, f'{venv}/bin/python', '-c', no_device, env=bindings).splitlines()[:2]
        assert name == library and 'no CUDA device: ' in error, (name, error)
    found = ''.join(pathlib.Path(path).read_text() for path in glob.glob(f'{venv}/bindings.*'))
    for call in ('dlsym', 'dlvsym', 'gpumem_region_create'):  # where the runtime gets its driver, and the registry
        assert re.search(rf'libgpumem-spgemm.so.0 \[0\] to \S+/libgpumem.so \[0\]: normal symbol `{call}', found), call
    os.replace(library, library + '.real')
    os.symlink(emulated, library)
    simulated = dict(here, LD_LIBRARY_PATH=os.path.join(build, 'tools', 'sim'), OMP_NUM_THREADS='1')
    assert run(f'{venv}/bin/python', test, env=simulated) == 'ok sparse\n'
    os.replace(library + '.real', library)


def main(source, build, *sparse):
    if subprocess.run([sys.executable, '-c', 'import venv, ensurepip'], capture_output=True).returncode:
        print('this Python makes no virtual environments')
        sys.exit(SKIP)
    run(os.path.join(source, 'tools', 'package'), '--wheel', '--no-setup', '--build', build)
    wheel, = glob.glob(os.path.join(build, 'gpumem-*.whl'))
    with tempfile.TemporaryDirectory() as folder:
        check_contents(wheel, os.path.join(folder, 'unpacked'))
        try_installed(wheel, folder, build, sparse)


if __name__ == '__main__':
    main(*sys.argv[1:])
