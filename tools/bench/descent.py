#!/usr/bin/env python3
"""Prints how far a call of the program descends: the files, functions, instructions and locked operations of the library that it executes.

Functions count where they are inlined, too. Runs on the simulated CUDA under valgrind's callgrind. `shard locks` are the locks of free lists
that the call takes: a program of one thread has one shard. Needs valgrind, addr2line and objdump.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import common

CALLS = {
    "hit": "cudaMalloc, a free block of the class is ready",
    "miss": "cudaMalloc, no block fits",
    "free": "cudaFree, the block is kept",
    "upkeep": "cudaFree, the one of 200 that does the most upkeep",
}
LIBRARY = "libgpumem.so"
LOCKS = {"gm_spin_lock", "gm_spin_try"}


def executed(profile, library):
    """Instructions of the library: address -> times executed. Addresses are those of the process."""
    names, inside, of_call, found = {}, False, False, collections.Counter()
    address = 0
    for line in profile.read_text().splitlines():
        named = re.match(r"(c?)ob=\((\d+)\)(?: (.*))?$", line)
        if named:
            name = names.setdefault(named[2], named[3])
            inside = inside if named[1] else name == library
        elif re.match(r"[+*0-9-]", line):
            place, _, cost = line.split()[:3]
            address = address if place == "*" else address + int(place, 0) if place[0] in "+-" else int(place, 0)
            if inside and not of_call:
                found[address] += int(cost)
        of_call = line.startswith("calls=")
    return found


def locked(library):
    """Addresses of the instructions that lock the bus."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {int(found[1], 16) for found in re.finditer(r"^ *([0-9a-f]+):\s+(?:lock |xchg .*\()", listing, re.M)}


def chains(library, addresses):
    """Address -> its functions as (name, file), the innermost one first."""
    words = subprocess.run(["addr2line", "-a", "-i", "-f", "-e", library], check=True, stdout=subprocess.PIPE, text=True,
                           input="".join(f"{address:#x}\n" for address in addresses)).stdout.splitlines()
    found, at = {}, 0
    while at < len(words):
        if words[at].startswith("0x"):
            chain = found[int(words[at], 16)] = []
            at += 1
            continue
        chain.append((words[at], re.sub(r"(:\d+|:\?)?( \(discriminator \d+\))?$", "", words[at + 1])))
        at += 2
    return found


def inside_shim(chain):
    """The functions of the chain that are ours, and not of the C library's headers."""
    return [(name, path[path.rindex("/shim/") + 1:] if "/shim/" in path else path) for name, path in chain
            if "shim/" in path or "policy/" in path]


def follow(build, call):
    library, program = build / "shim" / LIBRARY, build / "tools/bench/descent"
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "profile")
        subprocess.run(["valgrind", "--quiet", "--tool=callgrind", "--dump-instr=yes", "--toggle-collect=measured", "--dump-after=measured",
                        f"--callgrind-out-file={out}", program, call], check=True, stdout=subprocess.DEVNULL,
                       env=common.environment(library, {"GPUMEM_CACHE_IDLE": "0"}, build / "tools/sim"))
        profiles = [executed(path, str(library.resolve())) for path in pathlib.Path(folder).glob("profile.*")]
    profiles.sort(key=lambda counts: sum(counts.values()))
    return profiles[-1 if call == "upkeep" else len(profiles) // 2]


def row(build, call):
    library, counts = build / "shim" / LIBRARY, follow(build, call)
    of, bus = chains(library, counts), locked(library)
    functions = {each for address in counts for each in inside_shim(of[address])}
    locks = {address: times for address, times in counts.items() if address in bus}
    shard = sum(times for address, times in locks.items()
                if any(name in LOCKS and "shim/cache/" in path for (name, _), (_, path) in zip(of[address], of[address][1:])))
    spent = collections.Counter()
    for address, times in counts.items():
        spent[inside_shim(of[address])[0] if inside_shim(of[address]) else ("", "elsewhere")] += times
    return {"spent": spent, "files": len({path for _, path in functions}), "functions": len(functions), "instructions": sum(counts.values()),
            "locked": sum(locks.values()), "shard locks": shard, "names": sorted(functions, key=lambda each: each[::-1])}


def main():
    parser = common.Parser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="folder of the build; default: build")
    parser.add_argument("--names", choices=CALLS, help="list the functions of this call, too")
    options = parser.parse_args()
    columns = ["files", "functions", "instructions", "locked", "shard locks"]
    print(f"| call | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for call, words in CALLS.items():
        found = row(options.build.resolve(), call)
        print(f"| {words} | {' | '.join(str(found[column]) for column in columns)} |")
        if options.names == call:
            print("\n".join(f"{found['spent'][name, path]:6} {path} {name}" for name, path in found["names"]), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
