#!/usr/bin/env python3
"""Checks that clang-format 14 would leave every C, C++ and CUDA source as it is.

usage: check_format.py SOURCE BUILD

Ends with 77 where that version is not installed (tools/setup installs it).
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools" / "lib"))
import tree  # noqa: E402

SKIP = 77
VERSION = 14
ENDINGS = (".c", ".h", ".cpp", ".hpp", ".cu", ".cuh")
AT_A_TIME = 40


def formatter(build):
    for name in (f"clang-format-{VERSION}", "clang-format", str(build / ".venv" / "bin" / "clang-format")):
        path = shutil.which(name)
        said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout if path else ""
        if re.search(rf"version {VERSION}\.", said):
            return path
    return None


def main():
    root, build = map(pathlib.Path, sys.argv[1:])
    program, names = formatter(build), [name for name in tree.files(root) if name.endswith(ENDINGS)]
    if not program:
        print(f"no clang-format {VERSION}")
        return SKIP
    parts = [names[at:at + AT_A_TIME] for at in range(0, len(names), AT_A_TIME)]
    running = [subprocess.Popen([program, "--dry-run", "-Werror", *part], cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
               for part in parts]
    errors = "".join(process.communicate()[1] for process in running)
    wrong = sorted(set(re.findall(r"^(.*?):\d+:\d+: error:", errors, re.M)))
    failed = [process.returncode for process in running if process.returncode]
    print("\n".join(f"{name}: {os.path.basename(program)} -i changes it" for name in wrong) or errors or f"{len(names)} files")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
