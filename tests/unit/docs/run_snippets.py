#!/usr/bin/env python3
"""Runs the programs of README.md, section "From C, from C++, from Python", on the simulated CUDA.

usage: run_snippets.py SOURCE LIBRARY-FOLDER SIMULATED-CUDA TOOLKIT c|cpp|nvcc|python

C and C++ are compiled with all warnings as errors and linked as with pkg-config, C++ also by nvcc, which takes it as a
host's program; tests/examples/stubs stands for PyTorch. Ends with 77 where there is no compiler.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
HEADING = "## From C, from C++, from Python\n"
STRICT = ["-Wall", "-Wextra", "-Werror"]
LANGUAGES = {"c": ("cc", ["-std=c11"]), "cpp": ("c++", ["-std=c++17"])}
ENDINGS = {"nvcc": "cpp"}
PRINTS = {"c": r"(gpumem: .*\n){2,}", "cpp": "", "nvcc": "", "python": r"1000\.0\n"}  # "log" writes a line for each allocation and free


def snippets(readme):
    """{language: program} of the section; exactly one each."""
    section = readme.split(HEADING)[1].split("\n## ")[0]
    found = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert sorted(name for name, _ in found) == ["c", "cpp", "python"], [name for name, _ in found]
    return dict(found)


def command_for(language, program, folder, source, libraries, simulated, toolkit):
    """Writes and, where needed, builds the program; returns what runs it."""
    file = pathlib.Path(folder, "program." + ENDINGS.get(language, language))
    file.write_text(program)
    if language == "python":
        return [sys.executable, file]
    runtime, = pathlib.Path(simulated).glob("libcudart.so.*[0-9]")
    if language == "nvcc":  # it finds its own headers
        compiler, options, runtime = f"{toolkit}/bin/nvcc", ["-Xcompiler=" + ",".join(STRICT), "-cudart=none"], f"-Xlinker={runtime}"
    else:
        compiler, options = LANGUAGES[language]
        options = [*options, *STRICT, f"-isystem{toolkit}/include"]
    if not shutil.which(compiler):
        print(f"no {compiler}")
        sys.exit(SKIP)
    subprocess.run([compiler, *options, f"-I{source}/shim", "-o", f"{folder}/program", file, f"-L{libraries}", "-lgpumem-core", runtime],
                   check=True)
    return [f"{folder}/program"]


def main(source, libraries, simulated, toolkit, language):
    program = snippets(pathlib.Path(source, "README.md").read_text(encoding="utf-8"))[ENDINGS.get(language, language)]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_")}
    environment = {**clean, "LD_LIBRARY_PATH": f"{libraries}:{simulated}", "PYTHONPATH": f"{source}/tests/examples/stubs:{source}/tools/python"}
    with tempfile.TemporaryDirectory() as folder:
        command = command_for(language, program, folder, source, libraries, simulated, toolkit)
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.returncode == 0, f"{language}: {done.returncode}\n{done.stdout}"
    assert re.fullmatch(PRINTS[language], done.stdout), f"{language} prints\n{done.stdout}"


if __name__ == "__main__":
    main(*sys.argv[1:])
