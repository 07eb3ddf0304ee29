#!/usr/bin/env python3
"""The lines that the decoder finds for every instruction of the standard library, against those of the interpreter.

Only one format is the interpreter's own. The two older ones are written here, from the same lines.

usage: test_python_lines.py LIBRARY
"""
import ctypes
import pathlib
import sys
import sysconfig
import types
import unittest

LNOTAB, LINETABLE, LOCATIONS = range(3)


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def standard_library():
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if not {"test", "tests", "site-packages", "dist-packages", "lib2to3"} & set(path.parts):
            try:
                yield from codes(compile(path.read_bytes(), str(path), "exec"))
            except (SyntaxError, ValueError):
                pass


def linetable(code):
    """The format of 3.10: pairs of the bytes of a range and its signed line increment; -128: no line."""
    table, line = bytearray(), code.co_firstlineno
    for start, end, wanted in code.co_lines():
        bytes_left = end - start
        if wanted is not None:
            while not -127 <= wanted - line <= 127:
                step = 127 if wanted > line else -127
                table += bytes((0, step & 255))
                line += step
        increment = -128 if wanted is None else wanted - line
        line += 0 if wanted is None else increment
        while bytes_left > 254:
            table += bytes((254, increment & 255))
            bytes_left -= 254
            increment = -128 if wanted is None else 0
        table += bytes((bytes_left, increment & 255))
    return bytes(table)


def lnotab(code):
    """The format of 3.9: pairs of unsigned byte and signed line increments."""
    table, line, at = bytearray(), code.co_firstlineno, 0
    for start, _, wanted in code.co_lines():
        if wanted is None or wanted == line:
            continue
        for _ in range((start - at) // 255):
            table += bytes((255, 0))
        rest = (start - at) % 255
        while not -128 <= wanted - line <= 127:
            step = 127 if wanted > line else -128
            table += bytes((rest, step & 255))
            line, rest = line + step, 0
        table += bytes((rest, wanted - line & 255))
        line, at = wanted, start
    return bytes(table)


class Lines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.line = ctypes.CDLL(LIBRARY).gm_python_line
        cls.line.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_long]
        cls.own = LOCATIONS if sys.version_info >= (3, 11) else LINETABLE

    def check(self, code, format, table, kept):
        for start, end, wanted in code.co_lines():
            if wanted is None and not kept:
                continue
            for offset in range(start, end, 2):
                found = self.line(format, table, len(table), code.co_firstlineno, offset)
                if found != (-1 if wanted is None else wanted):
                    self.fail(f"{code.co_filename}: {code.co_name}+{offset}: {found}, not {wanted}")

    @unittest.skipIf(sys.version_info < (3, 10), "code.co_lines() is new in 3.10")
    def test_standard_library(self):
        count = 0
        for code in standard_library():
            self.check(code, self.own, code.co_linetable, True)
            self.check(code, LINETABLE, linetable(code), True)
            self.check(code, LNOTAB, lnotab(code), False)
            count += 1
        self.assertGreater(count, 1000)

    def test_before_the_first_instruction(self):
        for format in LNOTAB, LINETABLE, LOCATIONS:
            self.assertEqual(self.line(format, b"", 0, 7, -2), 7)

    def test_damaged(self):
        """Any bytes, and a table that ends anywhere, give some line."""
        tables = [bytes([first, second] * 40) for first in range(0, 256, 5) for second in range(0, 256, 5)]
        for table in tables:
            for format in LNOTAB, LINETABLE, LOCATIONS:
                for length in 0, 1, 2, 3, 79, 80:
                    self.line(format, table[:length], length, 1, 1 << 40)


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    unittest.main()
