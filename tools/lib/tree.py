#!/usr/bin/env python3
"""The project's own files: what git would commit now. In an unpacked archive, or without git, all but what builds make.

usage: tree.py SOURCE    their names, each ended by a zero byte
"""
import os
import pathlib
import re
import subprocess
import sys

# Folders that .gitignore names, from the root of the tree.
MADE = re.compile(r"build[^/]*|\.git|\.deps|\.venv|subprojects/(?!packagefiles$)[^/]*|(.*/)?__pycache__")


def known_to_git(root):
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True)
    except FileNotFoundError:  # there is no git
        return []
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def found(root):
    for folder, folders, names in os.walk(root):
        at = pathlib.Path(folder).relative_to(root)
        folders[:] = [name for name in folders if not MADE.fullmatch(str(at / name)) and not (root / at / name / "meson-private").exists()]
        yield from (str(at / name) for name in names if name != ".git")


def files(root):
    root = pathlib.Path(root)
    return known_to_git(root) or sorted(found(root))


if __name__ == "__main__":
    sys.stdout.write("".join(name + "\0" for name in files(sys.argv[1])))
