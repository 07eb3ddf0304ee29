#!/usr/bin/env python3
"""What the libraries export and need.

usage: symbols_test.py CC LIBGPUMEM_CORE.so [LIBGPUMEM.so LIBGPUMEM_AUDIT.so]

A library to preload must not pull in CUDA or a C++ runtime, must not export what a program could mistake for the CUDA
runtime, must load on every glibc from 2.17 on, and must hold no cancellation point.
"""
import os
import re
import subprocess
import sys
import tempfile

import elf

FORBIDDEN_LIBRARY = re.compile(r'^lib(cuda|cudart|nvidia|stdc\+\+|gcc_s)')
CORE_EXPORT = re.compile(r'^gpumem_')
AUDIT_EXPORT = re.compile(r'^la_')
SHIM_EXPORT = re.compile(r'^(cu[A-Z].*|dlsym|dlvsym|gpumem_.*|InitializeInjectionNvtx2|nvmlDeviceGetMemoryInfo(_v2)?)$')
OLDEST_GLIBC = (2, 17)
MOST_THREAD_LOCAL = 256  # bytes: glibc keeps some 1600 for all libraries of a process that are loaded late
# A thread that the program cancels ends in one of these, wherever it is called: inside a hook with gpumem's locks held.
CANCELLATION_POINT = re.compile(
    r'^(accept4?|clock_nanosleep|close|connect|copy_file_range|creat|epoll_p?wait2?|fallocate|fcntl|fdatasync|fsync|lockf|'
    r'mq_.*(send|receive)|msgrcv|msgsnd|msync|nanosleep|open|openat|pause|p?poll|p?select|posix_fallocate|preadv?2?|'
    r'pthread_(cond_(timed)?wait|join|testcancel)|pwritev?2?|readv?|recv(from|m?msg)?|sem_(timed)?wait|send(to|m?msg)?|'
    r'sig(pause|suspend|timedwait|wait|waitinfo)|u?sleep|splice|sync_file_range|system|tcdrain|tee|vmsplice|wait[34]?|'
    r'waitid|waitpid|writev?|f(open|close|read|write|flush|gets|puts|getc|putc)|v?d?f?printf|puts|putchar|__(?!mem|st[pr]).*_chk)(64)?$')


def faults(path, allowed):
    """Everything that is wrong with one library, one line each."""
    for name in elf.dynamic(path, 'NEEDED'):
        if FORBIDDEN_LIBRARY.match(name):
            yield f'needs {name}'
    if elf.thread_local_bytes(path) > MOST_THREAD_LOCAL:
        yield f'takes {elf.thread_local_bytes(path)} thread-local bytes'
    symbols = elf.symbols(path)
    if not any(s.defined and allowed.match(s.name) for s in symbols):
        yield 'exports nothing'
    for s in symbols:
        if s.defined and (not allowed.match(s.name) or s.name.startswith('cuda')):
            yield f'exports {s.name}'
        if s.defined and s.name.startswith('gpumem_') and not s.version:
            yield f'exports {s.name} without a version'
        if not s.defined and too_new(s.version):
            yield f'needs {s.name} of {s.version}'
        if not s.defined and CANCELLATION_POINT.match(s.name):
            yield f'calls {s.name}, where a thread may be cancelled'
    for version in elf.needed_versions(path):
        if too_new(version):
            yield f'needs {version}'


def too_new(version):
    if not version.startswith('GLIBC_'):
        return False
    numbers = re.fullmatch(r'GLIBC_(\d+)\.(\d+)(\.\d+)?', version)
    return not numbers or (int(numbers[1]), int(numbers[2])) > OLDEST_GLIBC


def check_the_checker(cc):
    """A library with each fault must be found out, else the test proves nothing."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, 'a.c'), os.path.join(folder, 'liba.so')
        with open(source, 'w') as out:
            out.write('#define _GNU_SOURCE\n#include <unistd.h>\n'
                      'int gpumem_plain(void) { return 0; }\nint cudaMalloc(void) { return 0; }\n'
                      'static __thread char own[300];\nchar *gpumem_own(void) { return own; }\n'
                      'int other(void) { char b[8]; return getentropy(b, sizeof b) || write(2, b, 1); }\n')
        subprocess.run([*cc, '-shared', '-fPIC', '-o', library, source, '-Wl,--no-as-needed', '-lgcc_s'], check=True)
        found = ' '.join(faults(library, SHIM_EXPORT))
        for fault in ('exports cudaMalloc', 'exports other', 'gpumem_plain without a version', 'needs libgcc_s',
                      'needs getentropy of GLIBC_2.25', 'takes 300 thread-local bytes', 'calls write'):
            assert fault in found, f'not noticed: {fault}; only: {found}'


def main(cc, core, shim=None, audit=None):
    check_the_checker(cc.split('|'))
    wrong = [f'{os.path.basename(core)} {f}' for f in faults(core, CORE_EXPORT)]
    if shim:
        wrong += [f'{os.path.basename(shim)} {f}' for f in faults(shim, SHIM_EXPORT)]
        if 'dlsym' not in {s.name for s in elf.symbols(shim) if s.defined}:
            wrong.append('libgpumem.so does not export dlsym')
    if audit:
        wrong += [f'{os.path.basename(audit)} {f}' for f in faults(audit, AUDIT_EXPORT)]
    print('\n'.join(wrong) or 'as promised')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
