#!/usr/bin/env python3
"""How long two programs take that each need 70 % of a card: one after the other, and together by gpumem share.

usage: share.py [--build DIR] [--card GIB] [--part PERCENT] [--seconds S] [--quantum TIME] [--rounds N] [--out FILE.json]

Each program copies between its blocks and fills them, for about S seconds natively (default 12), and compares the contents at its
end. The card has so many GiB free (default 24; 0 = all that is free): a further process holds the rest. The host needs room for the
memory of both programs. Prints seconds (median of the rounds, default 1) and writes FILE.json (default share.json). The defaults take
about 2 minutes. Ends with 77 without a GPU.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import common
from figure_text import GIB, block, span, titled
from suspend import Driver

PIECE = 1 << 28
AIM = 1.3


class Program:
    """Blocks of one word each, and a model of these words."""

    def __init__(self, size, seed):
        self.driver = Driver()
        self.blocks, self.words = [], []
        for number in range(size // PIECE):
            address = ctypes.c_uint64()
            self.driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(PIECE))
            self.blocks.append(address)
            self.words.append(0)
            self.fill(number, seed << 24 | number + 1)
        self.driver.call("cuCtxSynchronize")

    def fill(self, number, word):
        self.driver.call("cuMemsetD32_v2", self.blocks[number], ctypes.c_uint(word), ctypes.c_size_t(PIECE // 4))
        self.words[number] = word

    def turn(self, count):
        """Every block gets the contents of the one before, the first one new contents."""
        for number in range(len(self.blocks) - 1, 0, -1):
            self.driver.call("cuMemcpyDtoDAsync_v2", self.blocks[number], self.blocks[number - 1], ctypes.c_size_t(PIECE), None)
            self.words[number] = self.words[number - 1]
        self.fill(0, self.words[0] + len(self.blocks) + count & 0xFFFFFFFF)
        self.driver.call("cuCtxSynchronize")

    def check(self):
        host = (ctypes.c_uint32 * 1024)()
        for address, word in zip(self.blocks, self.words):
            for offset in (0, PIECE // 2, PIECE - ctypes.sizeof(host)):
                self.driver.call("cuMemcpyDtoH_v2", host, ctypes.c_uint64(address.value + offset), ctypes.c_size_t(ctypes.sizeof(host)))
                assert set(host) == {word}, "the contents have changed"


def program(size, seed, turns, seconds):
    """Prints the turns made. Without a number of turns it makes as many as fit in the seconds."""
    running = Program(size, seed)
    begin, done = time.perf_counter(), 0
    while done < turns or (not turns and time.perf_counter() - begin < seconds):
        running.turn(done)
        done += 1
    running.check()
    print(done)


def command(options, size, seed, turns=0):
    return [sys.executable, __file__, "--program", str(seed), "--bytes", str(size), "--turns", str(turns), "--seconds", str(options.seconds)]


def wait(process):
    out, error = process.communicate()
    if process.returncode:
        raise RuntimeError(error.strip().splitlines()[-1:])
    return out


def start(before, words):
    return subprocess.Popen([*before, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def timed(before, commands, together):
    """Seconds until all have ended."""
    begin = time.perf_counter()
    if together:
        for process in [start(before, words) for words in commands]:
            wait(process)
    else:
        for words in commands:
            wait(start(before, words))
    return time.perf_counter() - begin


def room_of(driver):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value


def hold_all_but(driver, size):
    """The programs' contexts need some memory, too."""
    spare = size + 2 * (1 << 30)
    while room_of(driver) > spare + PIECE:
        driver.call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(PIECE))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--card", type=int, default=24, help="GiB")
    parser.add_argument("--part", type=int, default=70, help="per cent")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--quantum", default="2s")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default="share.json")
    parser.add_argument("--program", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program is not None:
        return program(options.bytes, options.program, options.turns, options.seconds)
    try:
        driver = Driver()
    except (OSError, RuntimeError):
        print("skipped: no GPU")
        return 77
    if options.card:
        hold_all_but(driver, options.card * GIB)
    card = options.card * GIB or room_of(driver)
    size = card * options.part // 100 // PIECE * PIECE
    gpumem, group = options.build.resolve() / "tools" / "gpumem", f"bench{os.getpid()}"
    share = [gpumem, "share", f"--quantum={options.quantum}", f"--group={group}", "--exec", "--"]
    turns = int(wait(start([], command(options, size, 1))))
    commands = [command(options, size, seed, turns) for seed in (1, 2)]
    ways = {"native": ([], False), "gpumem": (share, False), "together": (share, True)}
    rows = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, (before, together) in ways.items():
            rows[way].append(timed(before, commands, together))
    subprocess.run([gpumem, "limit", "--remove", group], check=True)
    medians = {way: statistics.median(times) for way, times in rows.items()}
    for way, seconds in medians.items():
        print(f"{NAMES[way]:45} {seconds:7.2f} s {seconds / medians['gpumem']:6.2f} x")
    print(f"aim: at most {AIM} x")
    gpu, version = common.card()
    document = {"commit": common.commit(), "gpu": gpu, "driver": version, "card": card, "bytes": size, "turns": turns,
                "quantum": options.quantum, "rows": rows}  # fmt: skip
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0


NAMES = {"native": "natively, one after the other", "gpumem": "under gpumem share, one after the other", "together": "by gpumem share, together"}


@block("*-share.json")
def share(run):
    once = statistics.median(run["rows"]["gpumem"])
    rows = [[NAMES[way], f"{statistics.median(times):.1f} s ({span(times)})", f"{statistics.median(times) / once:.2f} x"]
            for way, times in run["rows"].items()]  # fmt: skip
    head = f"{run.made} ({run.file}); two programs of {run['bytes'] / GIB:.1f} GiB on {run['card'] / GIB:.0f} GiB, quantum {run['quantum']}:"
    return titled(head, ["", "time", "against one after the other"], rows)


if __name__ == "__main__":
    sys.exit(main())
