#!/usr/bin/env python3
"""Call sites of a program that allocates through one wrapper: in reports, exports, pictures, comparisons of two builds, and
explanations of errors.

usage: run_sites.py GPUMEM SHIM CC INCLUDE CUDA LIBDW WORK CASE
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent / "call_sites.c"
FUNCTIONS = {"load_matrix": 3 << 20, "load_vector": 4 << 20, "make_workspace": 8 << 20}
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Place:
    def __init__(self, gpumem, shim, compiler, include, cuda, libdw, work):
        self.gpumem, self.shim, self.include, self.cuda = map(os.path.abspath, (gpumem, shim, include, cuda))
        self.compiler, self.libdw = compiler.split(), libdw == "true"
        self.work = pathlib.Path(work)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)

    def build(self, language, *flags):
        """Ends with 77 where there is no compiler for the language."""
        compiler = self.compiler if language == "c" else [shutil.which("c++") or shutil.which("g++") or "none"]
        if compiler == ["none"]:
            sys.exit(77)
        program = self.work / ("call_sites" + "".join(flags))
        subprocess.run([*compiler, "-x", language, "-g", "-O1", "-fno-optimize-sibling-calls", "-fno-inline", *flags, "-I", self.include, SOURCE,
                        "-o", program, "-L", self.cuda, "-l:libcudart.so.13"], check=True)
        return program

    def start(self, command, **variables):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "SIMCUDA_"))}
        return subprocess.run([str(word) for word in command], cwd=self.work, capture_output=True, text=True, timeout=90,
                              env={**kept, "LD_LIBRARY_PATH": self.cuda, **variables})

    def trace(self, program, name, *options, **variables):
        done = self.start([self.gpumem, "run", f"--library={self.shim}", f"--trace={name}", *options, "--", program], **variables)
        assert (done.returncode, done.stdout) == (0, "ok call_sites\n"), done
        return done

    def tool(self, *words, status=0, **variables):
        done = self.start([self.gpumem, *words], **variables)
        assert done.returncode == status, done
        return done.stdout if status == 0 else done.stderr

    def sites(self, *options, **variables):
        """Bytes by function."""
        found = {}
        for site in json.loads(self.tool("report", "--json", *options, "t", **variables))["traces"][0]["sites"]:
            name = re.sub(r"[(<].*", "", (site["function"] or site["text"]).split("char* ")[-1])
            found[name] = found.get(name, 0) + site["allocated_bytes"]
        return found


def same(found, expected):
    assert found == expected, f"{found}, not {expected}"


@case
def report(place):
    place.trace(place.build("c"), "t")
    same(place.sites(), FUNCTIONS)  # nearly all stacks pass through gpu_malloc
    same(place.sites("--skip=none"), {"gpu_malloc": sum(FUNCTIONS.values())})
    for globs in (["--skip=gpu_malloc"], ["--skip=none", "--skip=x,gpu_*lo?"]):
        same(place.sites(*globs), FUNCTIONS)
    same(place.sites(GPUMEM_SKIP="gpu_malloc"), FUNCTIONS)
    same(place.sites("--skip=load_*", GPUMEM_SKIP="gpu_malloc,make_*"), {"descend": 14 << 20, "main": 1 << 20})
    same(place.sites("--skip=call_sites"), {"main": 15 << 20})  # by module: the outermost that is recorded
    if place.libdw:
        same(place.sites("--skip=call_sites.c"), {"main": 15 << 20})
    text = place.tool("report", "--stacks", "--leaks", "--skip=gpu_malloc", "t")
    assert re.search(r"program +load_vector .*\n      through 1 frame of wrappers\n      from descend ", text), text


@case
def known(place):
    """A wrapper with the name of a known library needs no option."""
    place.trace(place.build("c++"), "t")
    same(place.sites(), FUNCTIONS)
    text = place.tool("report", "--stacks", "t")
    assert re.search(r" load_vector .*\n +through 1 frame of wrappers\n +from ", text), text


@case
def exports(place):
    place.trace(place.build("c"), "t")
    place.tool("export", "--to=collapsed", "--measure=bytes", "--skip=gpu_malloc", "-o", "x", "t")
    found = {}
    for line in (place.work / "x").read_text().splitlines():
        stack, size = line.rsplit(" ", 1)
        name = stack.split(";")[-1]
        found[name] = found.get(name, 0) + int(size)
    same(found, FUNCTIONS)
    place.tool("export", "--to=perfetto", "--skip=gpu_malloc", "-o", "x.pftrace", "t")
    slices = (place.work / "x.pftrace").read_bytes()
    assert all(name.encode() in slices for name in FUNCTIONS) and b"gpu_malloc" not in slices
    place.tool("export", "--to=heaptrack", "--skip=gpu_malloc", "-o", "x.heaptrack", "t")
    assert "gpu_malloc" not in (place.work / "x.heaptrack").read_text()


@case
def pictures(place):
    """The program that draws runs gpumem, which reads GPUMEM_SKIP."""
    folder = place.work / "bin"
    folder.mkdir()
    (folder / "python3").write_text('#!/bin/sh\necho "skips $GPUMEM_SKIP"\n')
    (folder / "python3").chmod(0o755)
    said = place.tool("plot", "--skip=b*", "--skip=c", "-o", "x", "t", GPUMEM_SKIP="a", PATH=f"{folder}:{os.environ['PATH']}")
    same(said, "skips a,b*,c\n")


@case
def builds(place):
    """Another build of the same program has no difference; one with another allocation names its function."""
    for name, added in (("a", []), ("b", ["-DADDED"]), ("c", ["-DADDED", "-DMORE"])):
        place.trace(place.build("c", *added), name, GPUMEM_POLICY="observe")  # which block is reused depends on all others
    for globs in ([], ["--skip=gpu_malloc"]):
        out = place.tool("diff", *globs, "a", "b")
        assert out.endswith("\n  none\n") and "ignored" not in out, out
    out = place.tool("diff", "--skip=gpu_malloc", "a", "c").split("BY CALL SITE")[1]
    assert "load_vector" in out and "load_matrix" not in out and "make_workspace" not in out, out


@case
def depths(place):
    """The shorter stacks decide, and that is said once."""
    program = place.build("c")
    place.trace(program, "a", "--stacks=0")
    place.trace(program, "b", "--stacks=8")
    place.trace(program, "c")
    for names in ("ab", "ba", "bc", "cb"):
        out = place.tool("diff", "--skip=gpu_malloc,load_*,make_*,descend", *names)
        assert out.endswith("\n  none\n") and out.count("are ignored") == 1, out
        shorter, longer = sorted(names)
        assert re.search(f"of {'AB'[names.index(shorter)]} have at most .* of {'AB'[names.index(longer)]} are ignored", out), out
    depth = [max(len(site.get("callers", [])) for site in json.loads(place.tool("report", "--json", "--stacks", "--skip=none", name))["traces"][0]["sites"])
             for name in "abc"]
    assert depth[0] < depth[1] == 8 < depth[2], depth


@case
def out_of_memory(place):
    """The explanation names the call site, with and without a trace, and adds up the stacks of one call site."""
    for language, variables in (("c", {"GPUMEM_SKIP": "gpu_malloc"}), ("c++", {})):
        program = place.build(language)
        for trace in ({}, {"GPUMEM_TRACE": "t"}):
            done = place.start([program, str(1 << 40)], LD_PRELOAD=place.shim, GPUMEM_POLICY="observe", **variables, **trace)
            assert "requested by  make_workspace (call_sites+0x" in done.stderr, done.stderr
            if trace:  # load_matrix by two stacks, one of them from main
                assert re.search(r"3\.00 MiB in 3 blocks: load_matrix ", done.stderr), done.stderr


@case
def wrong(place):
    for options, variables, words in ((["--skip="], {}, "report: --skip '' has an empty glob; accepted: globs of functions, modules or"),
                                      (["--skip=a,,b"], {}, "report: --skip 'a,,b' has an empty glob; accepted"),
                                      (["--skip"], {}, "needs a value"),
                                      ([], {"GPUMEM_SKIP": "x,"}, "report: GPUMEM_SKIP 'x,' has an empty glob; accepted"),
                                      (["--skip=" + ",".join("x" * 300)], {}, "has more than 256 globs")):
        said = place.tool("report", *options, *(["t"] if options != ["--skip"] else []), status=2, **variables)
        assert words in said and said.count("\n") == 1, said
    done = place.start([place.build("c")], LD_PRELOAD=place.shim, GPUMEM_SKIP="x,")
    same((done.returncode, done.stderr), (0, "gpumem: GPUMEM_SKIP=x,: an empty glob; accepted: globs of functions, modules or source files, "
                                             "separated by commas; ignored\n"))


if __name__ == "__main__":
    CASES[sys.argv[8]](Place(*sys.argv[1:8]))
