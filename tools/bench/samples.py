"""Switches the samples of GPUMEM_GUARD on and off in a program that waits for input, so that on and off are compared in one process.

Other processes differ by more than what samples cost. The switch writes to two variables of the library in the memory of the program: the
N of 1/N, and the bit that leads calls to the guard. It takes their places from the library's table of symbols, so that must not be
stripped."""

import pathlib
import struct
import subprocess

import common

EVERY, WATCH = "gm_guard_every", "gm_watch"
FLAGS, GUARDS = 2, 1 << 5  # of gm_watch (shim/driver/in_flight.h): place of the flags, and GM_WATCH_GUARDS


def places(library):
    """Offsets of the variables in the library."""
    lines = common.run(["nm", library], common.environment()).splitlines()
    found = {words[2]: int(words[0], 16) for line in lines if len(words := line.split()) == 3 and words[2] in (EVERY, WATCH)}
    if len(found) != 2:
        raise common.Failed(f"{library} is stripped")
    return found


class Switch:
    """Of a process that has called the driver under GPUMEM_GUARD=1/N."""

    def __init__(self, library, process):
        self.places = places(library)
        maps = pathlib.Path(f"/proc/{process}/maps").read_text().splitlines()
        start = next((line for line in maps if line.endswith(str(library.resolve()))), None)
        if not start:
            raise common.Failed(f"process {process} has no {library}")
        self.start = int(start.split("-")[0], 16)
        self.memory = open(f"/proc/{process}/mem", "r+b", buffering=0)
        (self.every,) = self.read(EVERY, "<Q")

    def read(self, name, form, offset=0):
        self.memory.seek(self.start + self.places[name] + offset)
        return struct.unpack(form, self.memory.read(struct.calcsize(form)))

    def write(self, name, form, value, offset=0):
        self.memory.seek(self.start + self.places[name] + offset)
        self.memory.write(struct.pack(form, value))

    def turn(self, on):
        (flags,) = self.read(WATCH, "<H", FLAGS)
        self.write(WATCH, "<H", flags | GUARDS if on else flags & ~GUARDS, FLAGS)
        self.write(EVERY, "<Q", self.every if on else 0)


def ratios(off, on):
    """Of each time on to the mean of those off before and behind it."""
    return [2 * value / (before + behind) for before, value, behind in zip(off, on, off[1:])]
