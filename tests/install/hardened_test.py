#!/usr/bin/env python3
"""What the linker and the compiler put between an error in gpumem and those who would use it.

usage: hardened_test.py CC OPTIMISED FILE...      OPTIMISED: true or false, calls of the C library are checked
"""
import os
import subprocess
import sys
import tempfile

import elf

# The companion calls nothing with a size.
CHECKS_NOTHING = {'libgpumem-audit.so'}


def check_the_checker(cc):
    """A file with each fault must be found out, else the test proves nothing."""
    with tempfile.TemporaryDirectory() as folder:
        source, library, program = (os.path.join(folder, name) for name in ('a.c', 'liba.so', 'a'))
        with open(source, 'w') as out:
            out.write('int value(void) { return 1; }\nint main(void) { return 0; }\n'
                      '__asm__(".text\\n.quad value\\n.section .both,\\"awx\\",@progbits\\n.quad 0\\n.text");\n')
        subprocess.run([*cc, '-shared', '-fPIC', '-fno-stack-protector', '-U_FORTIFY_SOURCE', '-o', library, source, '-Wl,-z,norelro',
                        '-Wl,-z,lazy', '-Wl,-z,notext', '-Wl,-z,execstack', '-Wl,-rpath,/x'], check=True, stderr=subprocess.DEVNULL)
        subprocess.run([*cc, '-no-pie', '-o', program, source], check=True, stderr=subprocess.DEVNULL)
        found = set(elf.hardening_faults(library)) | set(elf.hardening_faults(program))
        for fault in ('binds functions late', 'has relocations that stay writable', 'has RUNPATH', 'has TEXTREL', 'has an executable stack',
                      'has a segment that is writable and executable', 'is no position-independent code', 'has no stack protector',
                      'checks no calls of the C library'):
            assert fault in found or fault.replace('RUNPATH', 'RPATH') in found, f'not noticed: {fault}; only: {found}'


def main(cc, optimised, *paths):
    check_the_checker(cc.split('|'))
    wrong = [f'{os.path.basename(path)} {fault}' for path in paths
             for fault in elf.hardening_faults(path, optimised == 'true' and os.path.basename(path) not in CHECKS_NOTHING)]
    print('\n'.join(wrong) or 'as promised')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
