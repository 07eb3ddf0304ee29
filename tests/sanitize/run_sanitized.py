#!/usr/bin/env python3
"""Builds the core's tests under a sanitizer, in a folder of their own, and runs them.

usage: run_sanitized.py MESON SOURCE FOLDER address|thread TEST...      TEST: path of a test program in the build folder,
and its arguments and settings (NAME=VALUE) behind blanks; a library is built only

Ends with 77 where the compiler has no such sanitizer or it cannot run here.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SKIP = 77
KINDS = {"address": "address,undefined", "thread": "thread"}
TIME_LIMIT_S = 200


def works(kind):
    """Compiles, links and runs: some kernels randomise addresses more than a sanitizer can take."""
    compiler = os.environ.get("CC", "cc")
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "try.c"), pathlib.Path(folder, "try")
        source.write_text("int main(void) { return 0; }\n")
        built = subprocess.run([compiler, f"-fsanitize={KINDS[kind]}", source, "-o", program], capture_output=True)
        return built.returncode == 0 and subprocess.run([program], capture_output=True).returncode == 0


def main():
    meson, source, folder, kind, *tests = sys.argv[1:]
    if not works(kind):
        print(f"-fsanitize={KINDS[kind]} does not work here")
        return SKIP
    environment = {name: value for name, value in os.environ.items() if name not in ("MALLOC_PERTURB_", "LD_PRELOAD")}
    if not pathlib.Path(folder, "build.ninja").exists():
        subprocess.run(
            [meson, "setup", folder, source, f"-Db_sanitize={KINDS[kind]}", "-Db_lundef=false", "-Ddebug=true", "-Dchecked=true",
             "-Doptimization=1"],  # gcc takes almost twice as long for 2
            env=environment, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    subprocess.run(["ninja", "-C", folder, "-j2", *sorted({test.split()[0] for test in tests})], env=environment, check=True, stdout=subprocess.DEVNULL)
    environment.update(
        # The tests' registries live in pages of their own and as long as the process.
        ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0",
        UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
        TSAN_OPTIONS="halt_on_error=0:exitcode=66:die_after_fork=0",
        LD_LIBRARY_PATH=str(pathlib.Path(folder, "tools/sim")),
    )

    def run(test):
        program, *words = test.split()
        arguments = [word for word in words if "=" not in word]
        settings = dict(word.split("=") for word in words if "=" in word)
        begin = time.monotonic()
        done = subprocess.run(
            [str(pathlib.Path(folder, program)), *arguments], env={**environment, **settings}, capture_output=True, text=True,
            timeout=TIME_LIMIT_S,
        )  # fmt: skip
        reports = done.stderr.count("WARNING: ThreadSanitizer") + done.stderr.count("runtime error:") + done.stderr.count("ERROR: ")
        right = done.returncode == 0 and not reports
        return right, (f"{test}: exit status {done.returncode}, {time.monotonic() - begin:.0f} s"
                       + ("" if right else f"\n{done.stdout[-2000:]}{done.stderr[:12000]}"))  # fmt: skip

    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for right, text in threads.map(run, (test for test in tests if ".so" not in test.split()[0])):
            print(text, flush=True)
            failed |= not right
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
