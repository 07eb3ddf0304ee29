"""Where small programs run, natively and under the shim."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

SKIP = 77
TIME_LIMIT_S = 90


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


class Place:
    """Where programs, CUDA and shim are, and one fresh folder for every run."""

    def __init__(self, options):
        self.options = options
        self.runs = 0
        shutil.rmtree(options.work, ignore_errors=True)

    def program(self, name):
        return str(self.options.programs / name)

    def fresh(self):
        self.runs += 1
        folder = self.options.work / f"run-{self.runs}"
        folder.mkdir(parents=True)
        return folder

    def environment(self, folder):
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GPUMEM_", "SIMCUDA_")) and name not in ("LD_PRELOAD", "MALLOC_PERTURB_")
        }
        if self.options.cuda:
            kept["LD_LIBRARY_PATH"] = str(self.options.cuda)
        kept["PROGRAM_LOG"] = str(folder / "program.log")
        kept["OTHER_LOG"] = str(folder / "other.log")
        return kept

    def run(self, command, preload=(), **more):
        folder = self.fresh()
        environment = self.environment(folder)
        if preload:
            environment["LD_PRELOAD"] = ":".join(str(library) for library in preload)
        environment.update(more)
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            raise Failure(
                f"{' '.join(command)} hangs with {environment.get('LD_PRELOAD', 'no preload')}"
            ) from None
        done.folder = folder
        return done

    def run_native(self, command, **more):
        done = self.run(command, **more)
        if done.returncode == SKIP:
            print(f"skipped: {done.stderr.strip()}")
            sys.exit(SKIP)
        check(
            done.returncode == 0 and "\nok " in "\n" + done.stdout,
            f"natively: exit status {done.returncode}\n{done.stdout}{done.stderr}",
        )
        return done

    def run_shimmed(self, command, policy, preload=None, trace=True, **more):
        preload = preload or (self.options.shim,)
        folder_of_next = self.options.work / f"run-{self.runs + 1}"
        settings = {"GPUMEM_POLICY": policy}
        if trace:
            settings["GPUMEM_TRACE"] = str(folder_of_next / "trace-%p.csv")
        return self.run(command, preload, **{**settings, **more})


def cases_of(program):
    """The cases that the source of a program lists (cases.h)."""
    source = (pathlib.Path(__file__).parent / f"{program}.c").read_text()
    return re.findall(r"^(?:CASE|RELIES|RELIES_ROW)\((\w+)", source, re.MULTILINE)


def is_simulated(place):
    return pathlib.Path(place.options.cuda).name == "sim"


def check_same_output(native, shimmed, label, warnings=False):
    stderr = shimmed.stderr
    if warnings:
        stderr = "".join(line for line in stderr.splitlines(True) if not line.startswith("gpumem: "))
    check(
        shimmed.returncode == native.returncode,
        f"{label}: exit status {shimmed.returncode}, natively {native.returncode}\n"
        f"{shimmed.stdout}{shimmed.stderr}",
    )
    check(
        shimmed.stdout == native.stdout, f"{label}: other output:\n{shimmed.stdout}natively:\n{native.stdout}"
    )
    check(stderr == native.stderr, f"{label}: on stderr:\n{shimmed.stderr}")


def run_case(cases, *further):
    """Exit status of the case that the command line names. further: options beside those of a place."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--cuda", required=True)
    parser.add_argument("--shim", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    for option in further:
        parser.add_argument(option, default="")
    parser.add_argument("case", choices=sorted(cases))
    options = parser.parse_args()
    try:
        cases[options.case](Place(options))
    except Failure as failure:
        print(f"FAILED {options.case}: {failure}")
        return 1
    return 0
