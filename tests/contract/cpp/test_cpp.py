#!/usr/bin/env python3
"""The C++ headers, compiled: what must run runs on the simulated CUDA, and what must not compile does not.

usage: test_cpp.py SOURCE LIBGPUMEM-CORE.a SIMULATED-CUDA TOOLKIT runs|refused|cccl|alone COMPILER

runs: programs of this folder. refused: each case of views.cpp and refused.cpp. cccl: cuda::mr and Thrust of the toolkit.
alone: every public header compiles by itself, without CUDA's headers and with more warnings, as C++17 and C++20, also without
run-time types. Those of C do so as C11, C17, C++11 and C++17. Ends with 77 without this compiler.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
STRICTER = ["-Wnon-virtual-dtor", "-Wshadow", "-Wold-style-cast"]  # programs compile with these, too
HERE = pathlib.Path(__file__).resolve().parent
# The templates of a header that a program makes classes of.
AUTHOR = {"gpumem_resource.hpp": """struct own : gpumem::stream_ordered_memory_resource<gpumem::memory_kind::host> {
    void *do_allocate(std::size_t, std::size_t) override { return nullptr; }
    void do_deallocate(void *, std::size_t, std::size_t) override {}
    void *do_allocate_async(std::size_t, std::size_t, gpumem::stream_view) override { return nullptr; }
    void do_deallocate_async(void *, std::size_t, std::size_t, gpumem::stream_view) override {}
};
inline void use() {
    own resource;
    gpumem::pmr_adaptor adaptor(resource);
}
"""}
VIEWS = "Managed\n" * 4 + "Device\n"


def compiled(compiler, source, *flags):
    return subprocess.run([compiler, "-fsyntax-only", *flags, source], capture_output=True, text=True)


class Options:
    def __init__(self, source, core, simulated, toolkit):
        self.include, self.core, self.simulated = f"-I{source}/shim", core, simulated
        self.headers = sorted(pathlib.Path(source, "shim").glob("gpumem*.h*"))
        self.cccl = [f"-isystem{toolkit}/include", f"-isystem{toolkit}/include/cccl"]
        self.has_cccl = pathlib.Path(toolkit, "include/cccl/cuda/memory_resource").exists()


def run_program(options, compiler, name, *more, libraries=()):
    with tempfile.TemporaryDirectory() as folder:
        command = [compiler, "-std=c++17", "-g", *STRICT, options.include, *more, str(HERE / name), "-o", f"{folder}/program",
                   options.core, *libraries, "-ldl", "-lpthread"]
        built = subprocess.run(command, capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
        clean = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_")}
        return subprocess.run([f"{folder}/program"], env={**clean, "LD_LIBRARY_PATH": options.simulated}, capture_output=True,
                              text=True, timeout=120)


def runs(options, compiler):
    for name, expected in (("views.cpp", VIEWS), ("resources.cpp", "ok resources\n"), ("residency.cpp", "ok residency\n"),
                           ("first.cpp", "ok first\n")):
        done = run_program(options, compiler, name)
        assert (done.returncode, done.stdout) == (0, expected), f"{name}: {done.returncode}\n{done.stdout}{done.stderr}"


def cases_of(path):
    """(number, what the compiler says or "") of the cases that a file marks by #if REFUSED == N // WORDS: why."""
    found = re.findall(r"^#(?:el)?if REFUSED == (\d+)(?: +// ([^:\n]*):)?", path.read_text(), re.MULTILINE)
    return [(int(number), said) for number, said in found]


def precompiled(compiler, folder, names, *flags):
    """Options by which cases of these files take their headers from one compiled file: parsing them is most of the time of a case."""
    lines = [line for name in names for line in (HERE / name).read_text().splitlines() if line.startswith("#include")]
    header, flags = pathlib.Path(folder, "prelude.hpp"), [f"-I{HERE}", *flags]
    header.write_text("\n".join(dict.fromkeys(lines)) + "\n")
    built = subprocess.run([compiler, *flags, "-x", "c++-header", header, "-o", f"{header}.gch"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return [*flags, "-include", str(header)]


def refused_cases(options, compiler, name, more=(), prelude=()):
    path = HERE / name
    flags = ["-std=c++17", options.include, *more]
    plain = compiled(compiler, path, *STRICT, *flags)
    assert plain.returncode == 0, f"{name} itself: {plain.stderr}"
    cases = cases_of(path)
    assert cases
    for number, said in cases:
        done = compiled(compiler, path, *(prelude or flags), f"-DREFUSED={number}")
        errors = "\n".join(line for line in done.stderr.splitlines() if "error:" in line)
        assert done.returncode != 0, f"{name}: case {number} compiles"
        expected = said or "conver|no matching"
        assert re.search(expected, errors), f"{name}: case {number} says\n{errors}\nand not: {said}"
    return len(cases)


def refused(options, compiler):
    names = ("views.cpp", "refused.cpp")
    with tempfile.TemporaryDirectory() as folder:
        prelude = precompiled(compiler, folder, names, "-std=c++17", options.include)
        count = sum(refused_cases(options, compiler, name, prelude=prelude) for name in names)
    print(f"{pathlib.Path(compiler).name}: {count} cases do not compile")


def cccl(options, compiler):
    if not options.has_cccl:
        print("the toolkit has no CCCL")
        sys.exit(SKIP)
    refused_cases(options, compiler, "cccl.cpp", options.cccl)
    runtime = next(pathlib.Path(options.simulated).glob("libcudart.so.*"))
    done = run_program(options, compiler, "cccl.cpp", *options.cccl, libraries=[str(runtime)])
    assert (done.returncode, done.stdout) == (0, "ok cccl\n"), f"{done.returncode}\n{done.stdout}{done.stderr}"


def alone(options, compiler):
    for header in options.headers:
        for standard in ("c++17", "c++20") if header.suffix == ".hpp" else ("c11", "c17", "c++11", "c++17"):
            language = "c++" if standard.startswith("c++") else "c"
            more = [[*STRICTER], [*STRICTER, "-fno-rtti"]] if language == "c++" else [["-Wshadow"]]
            for flags in more:
                done = subprocess.run([compiler, "-fsyntax-only", f"-std={standard}", *STRICT, *flags, options.include, "-x", language,
                                       "-"], input=f'#include "{header.name}"\n#include "{header.name}"\n{AUTHOR.get(header.name, "")}',
                                      capture_output=True, text=True)
                assert done.returncode == 0, f"{header.name} as {standard} with {flags}: {done.stderr}"


def main():
    *paths, what, name = sys.argv[1:]
    compiler = shutil.which(name)
    if not compiler:
        print(f"no {name}")
        return SKIP
    {"runs": runs, "refused": refused, "cccl": cccl, "alone": alone}[what](Options(*paths), compiler)
    return 0


if __name__ == "__main__":
    sys.exit(main())
