#!/usr/bin/env python3
"""Translates a CUDA source to C++ for the host: launches become calls, shared memory that of the emulated block.

usage: translate.py IN.cu OUT.cpp [-DNAME]
"""

import re
import sys


def closing(text, at):
    """Position of the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise SystemExit("parentheses do not match")


def launches(text):
    """kernel<T><<<grid, block, shared, stream>>>(arguments) ->
    emulated_launch(grid, block, shared, stream, [=](const auto &...of) { kernel<T>(of...); }, arguments)"""
    while (mark := text.find("<<<")) >= 0:
        name = re.search(r"[A-Za-z_]\w*(<[^<>;]*>)?\s*$", text[:mark])
        end = text.index(">>>", mark)
        opening = text.index("(", end)
        close = closing(text, opening)
        kernel = f"[=](const auto &...of) {{ {name.group(0).strip()}(of...); }}"
        call = f"emulated_launch({text[mark + 3:end]}, {kernel}, {text[opening + 1:close + 1]}"
        text = text[:name.start()] + call + text[close + 1:]
    return text


source = open(sys.argv[1]).read()
source = re.sub(r"extern __shared__ __align__\(\d+\) unsigned char (\w+)\[\];", r"unsigned char *\1 = emulated_shared();", source)
source = re.sub(r"^#pragma unroll.*\n", "", source, flags=re.MULTILINE)
defined = "".join(f"#define {name[2:]}\n" for name in sys.argv[3:])
open(sys.argv[2], "w").write(defined + '#include "emulated.h"\n' + launches(source))
