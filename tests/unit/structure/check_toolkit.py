#!/usr/bin/env python3
"""What is built and tested takes no more of a CUDA toolkit than PyPI's wheels of the compiler have (tools/lib/cuda-wheels.txt): no
stub of the driver, no library but the runtime. So a machine with a whole toolkit shows what a bare one would miss.

usage: check_toolkit.py SOURCE BUILD TOOLKIT
"""

import pathlib
import re
import shutil
import subprocess
import sys

# cuBLAS and cuSPARSE are looked for, and what needs them is left out without.
FILES = re.compile(r"|include(/cccl)?|bin/nvcc|lib(64)?(/libcudart\.so|/libcudart_static\.a|/libcublas\.so)?")
# Of include/ and include/cccl/.
HEADERS = re.compile(
    r"cooperative_groups(\.h)?|crt|cub|cuda|nv|nvtx3|thrust|(cublas|cusparse|cuda|cuComplex)\w*\.hp*"
    r"|(builtin|channel|common|device|driver|fatbinary|host|library|math|mma|sm|surface|texture|vector)\w*\.hp*"
)
STUB = re.compile(r"-lcuda(?![\w.])|\blib(?:64)?\W{1,9}stubs\b")


def troubles_of_commands(build, toolkit):
    text = (build / "build.ninja").read_text(encoding="utf-8").replace("$ ", " ").replace("$:", ":")
    named = set(re.findall(re.escape(toolkit) + r"/([\w./+-]*)", text))
    yield from (f"build.ninja names {name} of the toolkit" for name in sorted(named) if not FILES.fullmatch(name))
    yield from (f"build.ninja: {stub}" for stub in sorted(set(STUB.findall(text))))


def troubles_of_headers(build, toolkit):
    ninja = shutil.which("ninja") or shutil.which("ninja-build")
    known = subprocess.run([ninja, "-C", build, "-t", "deps"], capture_output=True, text=True).stdout if ninja else ""
    included = set(re.findall(rf"^\s+{re.escape(toolkit)}/(?:.*?/)??include/(?:cccl/)?([^/\n]*)", known, re.MULTILINE))
    return [f"{name} of the toolkit is included" for name in sorted(included) if not HEADERS.fullmatch(name)]


def troubles_of_scripts(source):
    for path in sorted((source / "tests").rglob("*.py")):
        for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if STUB.search(line) and path != pathlib.Path(__file__).resolve():
                yield f"{path.relative_to(source)}:{at}: links the toolkit's stub of the driver: {line.strip()}"


def main(source, build, toolkit):
    source, build = pathlib.Path(source).resolve(), pathlib.Path(build)
    troubles = [*troubles_of_commands(build, toolkit), *troubles_of_headers(build, toolkit), *troubles_of_scripts(source)]
    print("\n".join(troubles) or "no more than the wheels have")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
