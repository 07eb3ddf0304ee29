#!/usr/bin/env python3
"""Makes a Python wheel of a staged installation.

usage: wheel.py --stage PREFIX --python DIR --version VERSION --licence FILE... --readme FILE --output DIR

PREFIX is what `meson install` filled, with libraries in PREFIX/lib. It becomes the package `gpumem`, so that its parts find
each other as they do in PREFIX; manual pages and completions go to the environment's share/. The platform tag is read from
the files: a library from outside the C library is an error, and the newest version of a glibc symbol is the tag's. The same
input makes the same bytes, dated by SOURCE_DATE_EPOCH. Prints the path of the wheel.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

SYSTEM_LIBRARY = re.compile(r"(lib(c|m|dl|pthread|rt)\.so\.\d+|ld-linux.*\.so\.\d+)$")
OLDEST_GLIBC = (2, 17)
ENVIRONMENT = ("share/man/", "share/bash-completion/", "share/zsh/", "share/fish/")  # what shells and man look for
METADATA = """Metadata-Version: 2.1
Name: gpumem
Version: {version}
Summary: Allocation policies and memory reports for unmodified CUDA programs
License: MIT
Classifier: Operating System :: POSIX :: Linux
Classifier: Environment :: GPU :: NVIDIA CUDA
Requires-Python: >=3.8
Provides-Extra: plot
Requires-Dist: matplotlib; extra == 'plot'
Description-Content-Type: text/markdown

{readme}"""


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def newest_glibc(path):
    """Newest glibc that the file needs. Ends the program where it needs another library."""
    own = {file.name for file in path.parent.iterdir()}
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path)):
        if not SYSTEM_LIBRARY.match(name) and name not in own:
            sys.exit(f"wheel: {path.name} needs {name}, which not every machine has; install its static library")
    needs = readelf("--version-info", path).partition("Version needs section")[2]  # behind what the file itself defines
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", needs)
    return max([(int(major), int(minor)) for major, minor in versions], default=OLDEST_GLIBC)


def packed(stage):
    """(name in the wheel, content, executable or not) of the staged files. A wheel holds no links."""
    for path in sorted(stage.rglob("*")):
        name = path.relative_to(stage).as_posix()
        if path.is_symlink() or path.is_dir() or name.endswith(".a"):
            continue
        content = path.read_bytes()
        library = re.fullmatch(r"lib/(lib[\w-]+)\.so\.(\d+)\.[\d.]+", name)
        if library and library[1] == "libgpumem":  # preloaded by this name
            name = "lib/libgpumem.so"
        elif library:  # loaded by its SONAME, linked by the name without a version
            name = f"lib/{library[1]}.so.{library[2]}"
            yield f"gpumem/lib/{library[1]}.so", f"INPUT(-l:{library[1]}.so.{library[2]})\n".encode(), False
        at = "{data}/data/" if name.startswith(ENVIRONMENT) else "gpumem/"
        yield at + name, content, os.access(path, os.X_OK) and content.startswith(b"\x7fELF")


def tag(stage):
    elf = [path for path in stage.rglob("*") if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"]
    major, minor = max([OLDEST_GLIBC, *map(newest_glibc, elf)])
    return f"py3-none-manylinux_{major}_{minor}_{os.uname().machine}"


class Wheel:
    """A zip file with a record of what is in it."""

    def __init__(self, path, info):
        self.zip, self.info, self.record = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED), info, []
        self.date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]  # a zip begins in 1980

    def write(self, name, content, executable=False):
        entry = zipfile.ZipInfo(name, self.date)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        self.zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}\n")

    def close(self):
        name = f"{self.info}/RECORD"
        self.write(name, "".join([*self.record, f"{name},,\n"]).encode())
        self.zip.close()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("stage", "python", "readme", "output"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--licence", type=pathlib.Path, nargs="+", required=True)
    options = parser.parse_args()
    platform, name = tag(options.stage), f"gpumem-{options.version}"
    path = options.output / f"{name}-{platform}.whl"
    wheel = Wheel(path, f"{name}.dist-info")
    for source in sorted(options.python.rglob("*.py")):
        wheel.write(source.relative_to(options.python).as_posix(), source.read_bytes())
    for at, content, executable in packed(options.stage):
        wheel.write(at.replace("{data}", f"{name}.data"), content, executable)
    for licence in options.licence:
        wheel.write(f"{wheel.info}/licenses/{licence.parent.name if licence.name == 'copyright' else licence.name}", licence.read_bytes())
    wheel.write(f"{wheel.info}/METADATA", METADATA.format(version=options.version, readme=options.readme.read_text()).encode())
    wheel.write(f"{wheel.info}/entry_points.txt", b"[console_scripts]\ngpumem = gpumem.__main__:main\n\n[pytest11]\ngpumem = gpumem.pytest_plugin\n")
    wheel.write(f"{wheel.info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: tools/package\nRoot-Is-Purelib: false\nTag: {platform}\n".encode())
    wheel.close()
    print(path)


if __name__ == "__main__":
    main()
