#!/usr/bin/env python3
"""Programs whose memory all comes through wrappers of their own: report, diff and explanations name what calls these.

usage: run_attribution.py --programs DIR --cuda DIR --shim FILE --work DIR --gpumem FILE --headers DIR CASE
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from place import SKIP, check, run_case

HERE = pathlib.Path(__file__).resolve().parent


def line_of(name, words):
    (line,) = [n for n, text in enumerate((HERE / name).read_text().splitlines(), 1) if words in text]
    return line


class Program:
    """Runs one of the two programs and reads its traces."""

    def __init__(self, place, name):
        self.place, self.gpumem, self.folder = place, place.options.gpumem, place.options.work
        self.folder.mkdir(parents=True, exist_ok=True)
        self.command = [sys.executable, str(HERE / name)] if name.endswith(".py") else [self.build(name)]

    def build(self, name):
        compiler = shutil.which("c++")
        if not compiler:
            sys.exit(SKIP)
        target = self.folder / "wrapped"
        subprocess.run([compiler, "-O2", "-g", "-std=c++17", "-pthread", "-isystem", self.place.options.headers, HERE / name, "-o", target,
                        f"{self.place.options.cuda}/libcudart.so.13"], check=True)
        return str(target)

    def run(self, trace, *options, status=0):
        done = subprocess.run([self.gpumem, "run", f"--library={self.place.options.shim}", f"--trace={self.folder / trace}", *options, "--",
                               *self.command], capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": str(self.place.options.cuda)})
        check(done.returncode == status, f"{self.command}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stderr

    def say(self, command, *arguments):
        done = subprocess.run([self.gpumem, command, *arguments], capture_output=True, text=True, cwd=self.folder)
        check(done.returncode == 0, f"gpumem {command}: {done.returncode} {done.stderr}")
        return done.stdout

    def sites(self, *options):
        (trace,) = json.loads(self.say("report", "--json", *options, "t.trace"))["traces"]
        return trace["sites"], trace["stepped_past"]


def leaks_of(sites):
    return {site["function"] for site in sites if site["leaked_bytes"]}


def cpp(place):
    program = Program(place, "wrapped.cpp")
    program.run("t.trace")
    sites, stepped = program.sites()
    check(stepped["functions"] == ["nn::raw", "nn::allocate_tensor", "nn::tensor::tensor"], f"{stepped}")
    check(leaks_of(sites) == {"nn::embedding(std::string const&, unsigned long)", "nn::attention(unsigned long)"}, f"{leaks_of(sites)}")
    text = program.say("report", "t.trace")
    check("call sites: the callers of nn::raw, nn::allocate_tensor, nn::tensor::tensor; 8 of 8 call stacks pass through them; "
          "--skip=none names them\n" in text, text[:600])
    # The thread's start says nothing of who called.
    stacks = program.say("report", "--leaks", "--stacks", "t.trace")
    check("_M_invoke" not in stacks and "libstdc++" not in stacks and "clone" not in stacks and "from operator() at wrapped.cpp" in stacks, stacks)
    sites, stepped = program.sites("--skip=none")
    check((leaks_of(sites), stepped["functions"]) == ({"nn::raw(unsigned long)"}, []), f"{leaks_of(sites)} {stepped}")
    sites, stepped = program.sites("--skip=nn::raw,nn::allocate_tensor,none")
    check("nn::tensor::tensor(unsigned long)" in leaks_of(sites) and not stepped["functions"], f"{leaks_of(sites)}")
    program.run("u.trace")
    difference = program.say("diff", "t.trace", "u.trace").split("BY CALL SITE")[1]
    check("nn::raw" not in difference and "nn::embedding" not in difference, difference)
    done = subprocess.run([program.gpumem, "html", "--skip=none", "-o", "-", program.folder / "t.trace"], capture_output=True, text=True)
    check("built without dygraphs" in done.stderr or "nn::raw(unsigned long) at" in done.stdout, f"html: {done.stderr}")
    # A viewer of exported stacks shows the wrappers, too.
    check("nn::embedding(std::string const&, unsigned long);nn::tensor::tensor" in program.say("export", "--to=collapsed", "-o", "-", "t.trace"),
          "exported stacks")


def python(place):
    program = Program(place, "wrapped.py")
    program.run("t.trace")
    sites, stepped = program.sites()
    check(stepped["functions"] == ["malloc (wrapped.py)", "Tensor.__init__ (wrapped.py)"]
          or stepped["functions"] == ["malloc (wrapped.py)", "__init__ (wrapped.py)"], f"{stepped}")
    (leak,) = [site for site in sites if site["leaked_bytes"]]
    check((leak["function"], leak["line"]) == ("log_loss", line_of("wrapped.py", "# forgotten")), f"{leak}")
    (leak,) = [site for site in program.sites("--skip=none")[0] if site["leaked_bytes"]]
    check(leak["function"] == "malloc", f"{leak}")


def instances(place):
    """The instances of a template are one wrapper, also where few callers are known."""
    program = Program(place, "instances.cpp")
    program.run("t.trace")
    sites, stepped = program.sites()
    check(stepped["functions"] == ["nn::raw", "nn::allocate"], f"{stepped}")
    check(leaks_of(sites) == {"nn::validate(int)"}, f"{leaks_of(sites)}")


def explained(place):
    """Out of memory: the whole way to the request, and of each holder what tells it from the others."""
    program = Program(place, "wrapped.cpp")
    said = program.run("t.trace", "--limit=1200K", status=2)
    lines = said.splitlines()
    first = next(i for i, line in enumerate(lines) if "requested by" in line)
    stack = [line[24:].split(" (")[0] for line in lines[first:first + 4]]
    check(stack == ["nn::raw", "nn::allocate_tensor", "nn::tensor::tensor", "nn::attention"], said)
    (holder,) = [line for line in lines if "held by   " in line]
    check(": nn::embedding (wrapped+0x" in holder and " < main (wrapped+0x" in holder and "nn::raw" not in holder, said)
    program = Program(place, "wrapped.py")
    said = program.run("p.trace", "--limit=1040K", status=1)
    check(f"requested by  wrapped.py:{line_of('wrapped.py', 'assert runtime.cudaMalloc')} malloc\n" in said, said)
    check("                wrapped.py:" in said and " forward\n" in said and " train\n" in said, said)


CASES = {"cpp": cpp, "python": python, "instances": instances, "explained": explained}


if __name__ == "__main__":
    sys.exit(run_case(CASES, "--gpumem", "--headers"))
