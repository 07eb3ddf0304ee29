#!/usr/bin/env python3
"""A stream has a type of its own: no pointer and no number is taken for it. The header lists every resource.

usage: check_types.py SOURCE COMPILER...
"""

import pathlib
import re
import subprocess
import sys

PROGRAM = """
#include "shim/gpumem_resource.h"
enum gpumem_status allocate(struct gpumem_resource *resource, struct CUstream_st *stream, void **memory);
enum gpumem_status allocate(struct gpumem_resource *resource, struct CUstream_st *stream, void **memory) {
    return gpumem_resource_allocate_async(resource, 100, %s, memory);
}
"""


def compiles(source, compiler, argument):
    done = subprocess.run([*compiler, "-fsyntax-only", "-w", f"-I{source}", "-xc", "-"], input=PROGRAM % argument, text=True,
                          capture_output=True)
    return done.returncode == 0, done.stderr


def check_list(source):
    header = pathlib.Path(source, "shim/gpumem_resource.h").read_text()
    rows = "".join(path.read_text() for folder in ("resource", "cache", "placement")
                   for path in sorted(pathlib.Path(source, "shim", folder).glob("*.c")))
    names = re.findall(r'gm_resource_ops gm_resource_\w+ = \{\s*\.name = "([\w-]+)"', rows)
    assert len(names) > 20, names
    missing = [name for name in names if name not in ("router", "sim") and not re.search(rf"^ \*.* {name}[ (]", header, re.M)]
    assert not missing, f"gpumem_resource.h does not list {missing}"


def main():
    source, *compiler = sys.argv[1:]
    pathlib.Path(source, "shim/gpumem_resource.h").stat()
    check_list(source)
    good, error = compiles(source, compiler, "gpumem_stream(stream)")
    assert good, error
    for argument in ("stream", "NULL", "0", "2", "resource"):
        assert not compiles(source, compiler, argument)[0], f"{argument} is taken for a stream"


if __name__ == "__main__":
    main()
