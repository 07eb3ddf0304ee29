#!/usr/bin/env python3
"""A new kind of memory is one file and two rows: adds one to a copy of the sources and lets a program use it.

usage: add_kind.py SOURCE COMPILER WORK FILE...   (FILE: the sources that need no CUDA)
"""

import pathlib
import shutil
import subprocess
import sys


def add_line(path, after, line):
    text = path.read_text()
    assert text.count(after) == 1, f"{path}: '{after}' stands there {text.count(after)} times"
    path.write_text(text.replace(after, after + line))


def main(source, compiler, work, *files):
    source, work = pathlib.Path(source), pathlib.Path(work)
    here = pathlib.Path(__file__).parent
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("shim", "policy"):
        shutil.copytree(source / folder, work / folder)
    shutil.copy(here / "toy.c", work / "shim/resource/toy.c")
    add_line(work / "shim/resource/rows.h", "#define GM_RESOURCES_PURE(X) ", "X(toy) ")
    add_line(work / "policy/policy.h", "#define GM_KINDS(X) ",
             '\\\n    X(GM_KIND_TOY, "toy", "#123456", GM_TRAIT_DEVICE | GM_TRAIT_PLACED) ')
    sources = [work / pathlib.Path(file).resolve().relative_to(source.resolve()) for file in files]
    program = work / "use_toy"
    subprocess.run([*compiler.split(), "-std=gnu11", "-O0", "-D_GNU_SOURCE", '-DGM_VERSION="0"', "-w", "-I", str(work), "-o", str(program),
                    *map(str, sources), str(work / "shim/resource/toy.c"), str(here / "use_toy.c"), "-ldl", "-lpthread"], check=True)
    subprocess.run([str(program)], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
