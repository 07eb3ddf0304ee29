#!/usr/bin/env python3
"""Constant sizes of buffers fold at compile time: GPUMEM_WORKSPACE_BYTES(1024, 256, size, 512) compiles to the code of the rounded
size + 1792, and a call for constant sizes passes one constant. What must not compile does not.

usage: folds.py SOURCE CC CXX
"""

import pathlib
import re
import subprocess
import sys
import tempfile

C = """
#include "gpumem_workspace.h"
size_t f(size_t size) { return %s; }
"""
CXX = """
#include "gpumem_workspace.hpp"
extern "C" std::size_t f(std::size_t size) { return %s; }
"""
# what is written, in C and in C++; the same by hand
PAIRS = [
    ("GPUMEM_WORKSPACE_BYTES(1024, 256, size, 512)", "gpumem::workspace_bytes(1024, 256, size, 512)",
     "gpumem_workspace_rounded(size) + 1792"),
    ("GPUMEM_WORKSPACE_BYTES(1000, 1, 65, 512) + 0 * size", "gpumem::workspace_bytes(1000, 1, 65, 512) + 0 * size", "1728"),
]  # fmt: skip
FORGETS = '#include "gpumem_workspace.h"\nvoid f(struct gpumem_workspace *w) { GPUMEM_WORKSPACE_BORROW(w, 1); }\n'
TWO_BUFFERS = '#include "gpumem_workspace.hpp"\nvoid *f(gpumem_workspace *w) { return gpumem::borrow(w, 1, 2); }\n'


def compiles(command, source, text, suffix):
    """The assembler text, or None."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / f"a.{suffix}"
        file.write_text(text)
        done = subprocess.run([*command.split(), "-O2", "-Werror=unused-result", "-I", source / "shim", "-S", "-o", "-", file],
                              capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None


def code(assembler):
    """Instructions of the function f."""
    lines = re.search(r"^f:.*?\n(.*?)^\s*\.size\s+f,", assembler, re.S | re.M)[1].splitlines()
    return [line.split("#")[0].strip() for line in lines if line.strip() and not re.match(r"\s*\.(?!L)|\s*#", line)]


def main():
    source, cc, cxx = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3] and sys.argv[3] + " -std=c++17"
    for in_c, in_cxx, by_hand in PAIRS:
        for command, text, suffix, written in ((cc, C, "c", in_c), (cxx, CXX, "cpp", in_cxx)):
            if not command:
                continue
            got, expected = (code(compiles(command, source, text % what, suffix)) for what in (written, by_hand))
            assert got and got == expected, f"{written}: {got} instead of {expected}"
    assert compiles(cc, source, FORGETS, "c") is None, "a loan whose address is dropped compiles"
    if cxx:
        assert compiles(cxx, source, TWO_BUFFERS, "cpp") is None, "two buffers convert to one pointer"


if __name__ == "__main__":
    main()
