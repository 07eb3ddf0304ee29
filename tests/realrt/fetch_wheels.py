#!/usr/bin/env python3
"""Fetch NVIDIA's runtime libraries as wheels and unpack them into a folder; nothing is installed.

usage: fetch_wheels.py FOLDER NAME==VERSION ...

Ends with 77 where a wheel is not to be had (no network, no wheel for this machine).
"""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
import zipfile

SKIP = 77


class NotToBeHad(Exception):
    pass


def pip_command():
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    if not found:
        raise NotToBeHad("no pip on this machine")
    return [found]


def fetch(folder, requirement):
    """Unpacked wheel of NAME==VERSION under folder; a second call finds it there."""
    target = pathlib.Path(folder) / requirement.replace("==", "-")
    if target.is_dir():
        return target
    download = target.with_name(target.name + ".download")
    shutil.rmtree(download, ignore_errors=True)
    command = pip_command() + [
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--timeout",
        "20",
        "--retries",
        "1",
        "--only-binary=:all:",
        "--dest",
        str(download),
        requirement,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise NotToBeHad(f"{requirement} is not to be had: {last}")
    unpacked = target.with_name(target.name + ".part")
    shutil.rmtree(unpacked, ignore_errors=True)
    for wheel in download.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
    unpacked.rename(target)  # a half-unpacked wheel must not be taken for a whole one
    shutil.rmtree(download)
    return target


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        for requirement in sys.argv[2:]:
            print(fetch(sys.argv[1], requirement))
    except NotToBeHad as reason:
        print(f"fetch_wheels: {reason}", file=sys.stderr)
        sys.exit(SKIP)


if __name__ == "__main__":
    main()
