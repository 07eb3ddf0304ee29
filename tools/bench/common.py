"""What the benches share: how a program runs natively and under the library, what it printed, and on which card."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIP = 77


class NoCard(Exception):
    """The machine has no CUDA device."""


class Failed(Exception):
    """A program of the bench did not end well; its words."""


class Parser(argparse.ArgumentParser):
    """Of a bench. `usage` is the whole help; wrong usage is one line."""

    def __init__(self, usage=None, **more):
        super().__init__(usage=usage and usage.replace("%", "%%"), **more)

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; --help says more\n")


def count(text):
    """Type of an option: a number of rounds, runs or the like."""
    if not re.fullmatch("[1-9][0-9]{0,11}", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 on")
    return int(text)


def output(text):
    """Type of an option: a file to write. A long run shall not fail at its end, so the folder is checked now."""
    path = pathlib.Path(text)
    if not text or path.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is not the name of a file")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"'{text}': its folder is not there, or not writable")
    return path


class Measured:
    """One line of a bench program: nanoseconds a repetition over its samples, and what else it says (`live=`, `reserved=`, ...)."""

    def __init__(self, line):
        name, repetitions, least, median, most, *more = line.split()
        self.name, self.repetitions = name, int(repetitions)
        self.min, self.median, self.max = float(least), float(median), float(most)
        self.more = {key: int(value) for key, value in (pair.split("=") for pair in more)}


def build(folder, *targets, shim=True):
    """Builds what is measured in meson's folder, which must be there; with the library unless `shim` is False."""
    ninja = folder / "build.ninja"
    if not ninja.exists():
        raise Failed(f"{folder}: not a build folder; tools/setup makes one")
    if shim:
        targets = (re.search(r"^build (shim/libgpumem\.so[0-9.]*):", ninja.read_text(), re.MULTILINE)[1], *targets)
    done = subprocess.run(["ninja", "-C", str(folder), *targets], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed("ninja: " + " | ".join((done.stdout + done.stderr).strip().splitlines()[-3:]))
    if shim and not (folder / "shim" / "libgpumem.so").exists():  # the dynamic linker would go on without it
        raise Failed(f"{folder}/shim/libgpumem.so is not there")


def earlier(path):
    """What a bench wrote to FILE.json."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise Failed(f"{path}: {getattr(problem, 'strerror', None) or 'no results of a bench: ' + str(problem)}") from None
    if not isinstance(document, dict) or "commit" not in document:
        raise Failed(f"{path}: no results of a bench")
    return document


def end(main, without_card="--plot FILE.json draws an earlier run"):
    """Ends the bench with what `main` returns; without a card, or after a failure, with one line that says so."""
    name = pathlib.Path(sys.argv[0]).name
    try:
        sys.exit(main())
    except NoCard:
        print(f"{name}: no CUDA device; {without_card}", file=sys.stderr)
        sys.exit(SKIP)
    except Failed as failure:
        sys.exit(f"{name}: {failure}")


def environment(shim=None, settings=(), cuda=None):
    """Of a program without (`shim` None) or under the library; `cuda`: folder of another libcuda.so.1."""
    made = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_") and not key.startswith("PYTORCH_")}
    if cuda:
        made["LD_LIBRARY_PATH"] = str(cuda)
    if shim:
        made["LD_PRELOAD"] = str(shim)
    made.update(settings)
    return made


def completed(command, environ, timeout=None):
    """A program that ended well, with its words. Raises NoCard or Failed."""
    try:
        done = subprocess.run([str(part) for part in command], env=environ, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"{pathlib.Path(command[0]).name}: took longer than {timeout:.0f} s") from None
    except OSError as problem:
        raise Failed(f"{command[0]}: {problem.strerror}") from None
    if done.returncode == SKIP:
        raise NoCard
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()[-3:] or [f"status {done.returncode}"]
        raise Failed(f"{pathlib.Path(command[0]).name}: {' | '.join(words)}")
    return done


def run(command, environ, timeout=None):
    """Standard output of a program. Raises NoCard or Failed."""
    return completed(command, environ, timeout).stdout


def measure(command, environ, trace=None, timeout=None):
    """Lines of a bench program. `trace`: name of a trace that is written meanwhile and thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        if trace:
            environ = {**environ, "GPUMEM_TRACE": str(pathlib.Path(folder) / trace)}
        return [Measured(line) for line in run(command, environ, timeout).splitlines()]


def card():
    """GPU and driver, None each where nvidia-smi is not."""
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                              text=True, check=True).stdout
        name, driver = text.splitlines()[0].split(",")
        return name.strip(), driver.strip()
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        return None, None


def commit():
    """Of the sources, "" where git does not know it."""
    try:
        return subprocess.run(["git", "-C", str(pathlib.Path(__file__).parent), "rev-parse", "--short", "HEAD"],
                              capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""
