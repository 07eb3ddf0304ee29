#!/usr/bin/env python3
"""Every exported function of the driver begins with instructions that UCX's bistro can move elsewhere, as many as it writes over.

usage: check_entries.py LIBGPUMEM.so

What it knows (UCX 1.13, ucm_bistro_relocate_one): on x86-64 push, pop, mov imm32 to a register, mov of a register to the stack, mov rsp
to rbp, sub from rsp, cmpl with a word of the program; on aarch64 adrp, ldr, mov, movk, stp, cmp.
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'install'))
import elf  # noqa: E402

ENOUGH_FUNCTIONS = 700
X86_64, AARCH64 = 62, 183
# Its longest patch: mov imm64, r11; jmp r11, and a load of 64 bits in four instructions; br.
LONGEST = {X86_64: 13, AARCH64: 20}


def length_on_x86_64(code):
    """Bytes of the first instruction; None: unknown to UCX."""
    if code[0] & 0xf0 == 0x50:
        return 1
    if code[0] == 0x41 and code[1] & 0xf0 == 0x50:
        return 2
    if code[0] & 0xf8 == 0xb8:
        return 5
    if code[:2] == b'\x81\x3d':
        return 10
    if code[:3] == b'\x48\x81\xec':
        return 7
    if code[:3] == b'\x48\x89\xe5':
        return 3
    if code[:2] == b'\x48\x89' and code[2] & 7 == 4:
        return {1: 5, 2: 8}.get(code[2] >> 6)
    return None


def length_on_aarch64(code):
    word, = struct.unpack_from('<I', code)
    known = [(0x9f000000, 0x90000000), (0xbfc00000, 0xb9400000), (0xbfe00400, 0xb8400400), (0x7f800000, 0x52800000),
             (0x7f800000, 0x72800000), (0x7fe0ffe0, 0x2a0003e0), (0x7ffffc00, 0x11000000), (0x7fc0001f, 0x6b00001f),
             (0xffc00000, 0xa9000000), (0xffc00000, 0xa9800000), (0xffc00000, 0xa8800000)]
    return 4 if any(word & mask == value for mask, value in known) else None


def segments(image):
    """(address, offset, bytes in the file) of what is loaded."""
    start, size, count = struct.unpack_from('<Q', image, 32)[0], *struct.unpack_from('<HH', image, 54)
    for i in range(count):
        kind, _, offset, address, _, length, _, _ = struct.unpack_from('<IIQQQQQQ', image, start + i * size)
        if kind == 1:
            yield address, offset, length


def functions(path):
    for line in elf.readelf('--dyn-syms', path).splitlines():
        field = line.split()
        if len(field) > 7 and field[3] == 'FUNC' and field[6] != 'UND' and field[7].startswith('cu'):
            yield field[7].partition('@')[0], int(field[1], 16)


def main():
    image = pathlib.Path(sys.argv[1]).read_bytes()
    machine, = struct.unpack_from('<H', image, 18)
    length_of = length_on_x86_64 if machine == X86_64 else length_on_aarch64
    count = faults = 0
    for name, address in functions(sys.argv[1]):
        code = next(image[offset + address - base:][:64] for base, offset, size in segments(image) if base <= address < base + size)
        known, length = 0, 0
        while known < LONGEST[machine] and length is not None:
            length = length_of(code[known:])
            known += length or 0
        if known < LONGEST[machine]:
            print(f'{name}: {known} bytes are known, then {code[known:known + 8].hex(" ")}')
            faults += 1
        count += 1
    print(f'{count} functions')
    return faults > 0 or count < ENOUGH_FUNCTIONS


if __name__ == '__main__':
    sys.exit(main())
