"""Hostile files for the program gpumem: traces whose fields, records, packed events and chunks hold anything, compressed
or not; modules whose ELF headers, tables and debug information do; suppressions, plans and rules. Each file begins as a
valid one. The program may refuse it in words. It never ends by a signal, writes no control character, takes no more
memory, output or time than a file of this size explains, and a sanitizer finds nothing.

usage: fuzz_tool.py GPUMEM LIBRARY [--seconds N] [--seed N] [--keep FOLDER]

LIBRARY is a library with debug information. Each run draws from a new seed, which is printed; a file at fault stays in
the folder of --keep."""
import argparse
import gzip
import os
import pathlib
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "unit/tools"))
import elf_file  # noqa: E402
import trace_file as t  # noqa: E402

MEMORY, OUTPUT, SECONDS = 1 << 30, 64 << 20, 30
HEADER, CHUNK = 4096, 64
NUMBERS = [0, 1, 2, 7, 8, 63, 64, 127, 128, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1, 1 << 32, 1 << 48,
           (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
FIELDS = [b"", b"-", b"-1", b"+1", b"x", b"0x", b"0xffffffffffffffff", b"99999999999999999999999", b"1e9", b"nan", b" ", b"\x1b]0;x\x07",
          b"=1+1", b'"', b"'", b"\xe2\x80\xae", b"\xff\xfe", b"a" * 3000, b"\\", b"\\x", b"\\x0a", b"/dev/tty", b"%n%s", *(b"%d" % n for n in NUMBERS)]
SUPPRESSIONS = b"""{\n   known\n   Gpumem:Leak\n   fun:make*\n   obj:*/app\n   ...\n   src:*.c:12\n}\n# a comment\n{\n   other\n   Gpumem:Leak\n   fun:main\n}\n"""
RULES = b"size >= 1M and size < 16M : async\ncall = cuMemAlloc : managed\ndevice = 0 : native\n"


# ---- seeds

def lines_of_csv():
    lines = [b"seq,time_ns,action,call,address,bytes,device,stream,thread,duration_ns,bytes_got,kind,reason,verdict,hit,site,context,result,flags,pid",
             b"# gpumem 1 start_ns 1 epoch_ns 2 pid 77 parent 4 rank -1 ", b"# host node7", b"# module 0x1000 0x1000 0x20000 ab12 /bin/x y",
             b"# site 3 0 0x1456 0x1500 ", b"# device 0 100 GPU", b"# context 1 0 0x5 0x6 ", b"# string 4 loop"]
    for n in range(1, 13):
        action = b"free" if n % 3 == 0 else b"alloc"
        lines.append(b"%d,%d,%s,%s,0x%x,%d,0,0x0,9,10,128,native,policy,native,0,3,1,0,0,77" %
                     (n, 100 * n, action, b"cuMemFree" if n % 3 == 0 else b"cuMemAlloc", 0x1000 * (n - (n % 3 == 0)), 100))
    return b"\n".join(lines + [b"# end dropped 0", b""])


def trace_of(module, packed):
    events = [t.event(n, 1000 * n, "alloc", "cuMemAlloc", 0x100000 * n, 4096 * n, site=1 + n % 3) for n in range(1, 40)]
    events += [t.event(40 + n, 50000 + n, "free", "cuMemFree", 0x100000 * n, 4096 * n) for n in range(1, 30)]
    records = (t.device(0, 80 << 30, "GPU") + t.module(0x10000, 0x10000, 0x100000, module) + t.string(7, b"phase") +
               t.python(9, 12, b"train", b"/src/train.py"))
    records += b"".join(t.site(n, [0x10000 + elf_file.FUNCTION + 0x10 * n, 0x11000, t.PYTHON_FRAME + 9]) for n in (1, 2, 3))
    body = t.packed(b"".join(events)) if packed else t.chunk(b"".join(events))
    return t.header() + t.chunk(records, kind=2) + body


# ---- changes

def put_number(draw, data, low, high):
    size = draw.choice((1, 2, 4, 8))
    at = draw.randrange(low, max(low + 1, high - size + 1))
    if draw.random() < 0.7:
        at -= at % size
    value = draw.choice(NUMBERS) if draw.random() < 0.7 else draw.getrandbits(64)
    return data[:at] + (value % (1 << 8 * size)).to_bytes(size, "little") + data[at + size:]


def chunks_of(data):
    at = HEADER
    while at + CHUNK <= len(data):
        used, size = struct.unpack_from("<II", data, at + 12)
        if not CHUNK <= size <= len(data) - at:
            return
        yield at, min(used, size - CHUNK), size
        at += size


def change_binary(draw, data):
    """What the frame holds more often than the frame, so that changes reach the inner parts."""
    chunks, kind = list(chunks_of(data)), draw.random()
    if not chunks or kind < 0.05:
        return put_number(draw, data, 0, len(data))
    at, used, size = draw.choice(chunks)
    if kind < 0.12:
        return put_number(draw, data, at, at + CHUNK)
    if kind < 0.17:
        return data[:at] + data[at + size:]
    if kind < 0.22:
        return data + data[at:at + size]
    if kind < 0.25:
        return data[:draw.randrange(len(data))]
    return put_number(draw, data, at + CHUNK, at + CHUNK + max(used, 8))


def change_text(draw, data, separators):
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    kind = draw.random()
    if kind < 0.05:
        del lines[at]
    elif kind < 0.1:
        lines.insert(at, draw.choice(lines))
    elif kind < 0.12:
        return data[:draw.randrange(len(data) + 1)]
    else:
        fields = re.split(b"([" + separators + b"])", lines[at])
        place = 2 * draw.randrange((len(fields) + 1) // 2)
        fields[place] = draw.choice(FIELDS) if draw.random() < 0.8 else draw.choice(draw.choice(lines).split(b","))
        lines[at] = b"".join(fields)
    return b"\n".join(lines)


def change_elf(draw, data):
    tables = struct.unpack_from("<Q", data, 40)[0]
    sections = struct.unpack_from("<H", data, 60)[0] if len(data) > 64 else 0
    kind = draw.random()
    if kind < 0.15 or not 64 <= tables < len(data):
        return put_number(draw, data, 16, 64)
    if kind < 0.5:
        return put_number(draw, data, tables, min(len(data), tables + 64 * max(sections, 1)))
    if kind < 0.55:
        return data[:draw.randrange(64, len(data))]
    at = tables + 64 * draw.randrange(max(sections, 1))
    if at + 64 > len(data):
        return put_number(draw, data, 0, len(data))
    offset, size = struct.unpack_from("<QQ", data, at + 24)  # of a section, such as one of debug information
    if not size or offset >= len(data):
        return put_number(draw, data, tables, len(data))
    return put_number(draw, data, offset, min(len(data), offset + min(size, 4096)))


# ---- one case

class Case:
    def __init__(self, options, draw, folder):
        self.gpumem, self.draw, self.folder = options.gpumem, draw, folder
        self.library = pathlib.Path(options.library).read_bytes()

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def changed(self, change, data, *more):
        for _ in range(self.draw.choice((1, 1, 1, 2, 4, 8))):
            data = change(self.draw, data, *more)
        return data

    def commands(self, trace, plain):
        out = ["--force", "-o", str(self.folder / "out")]
        every = [["report"], ["report", "--json"], ["report", "--leaks", "--oom", "--peak", "--objects", "--sizes", "--lifetimes"],
                 ["report", "--reserved", "--growth", "--duplicates", "--phases", "--threads", "--streams", "--kinds"], ["diff", plain],
                 ["html", *out], ["plan", *out], ["plan", "--compare", *out], ["plan", "--as-rules", *out], ["replay"],
                 *(["export", "--to", to, *out] for to in ("csv", "rmm", "heaptrack", "pprof", "collapsed", "perfetto", "sqlite", "torch"))]
        return [[*command, trace] for command in self.draw.sample(every, 3)]

    def trace(self, module="/opt/none/app"):
        binary = self.draw.random() < 0.6
        if binary:
            data = self.changed(change_binary, trace_of(module, self.draw.random() < 0.7))
        else:
            data = self.changed(change_text, lines_of_csv(), b", ")
        if self.draw.random() < 0.1:
            data = gzip.compress(data)
            if self.draw.random() < 0.5:
                data = put_number(self.draw, data, 0, len(data))
        return self.commands(self.write("x.gmt", data), self.write("plain.gmt", trace_of(module, True)))

    def module(self):
        seed = self.library if self.draw.random() < 0.6 else elf_file.library([b"first", b"_ZN1a1bEv", b"third"] * 4)
        path = self.write("module.so", self.changed(change_elf, seed))
        trace = self.write("x.gmt", trace_of(path, True))
        return [["report", trace], ["export", "--to", "collapsed", "--force", "-o", "-", trace]]

    def suppressions(self):
        path = self.write("known", self.changed(change_text, SUPPRESSIONS, b": *"))
        return [["report", "--leaks", "--suppressions", path, self.write("x.gmt", trace_of("/opt/none/app", True))]]

    def placement(self):
        trace = self.write("x.gmt", trace_of("/opt/none/app", True))
        plan = self.folder / "plan"
        subprocess.run([self.gpumem, "plan", "--force", "-o", plan, trace], capture_output=True, timeout=SECONDS)
        if self.draw.random() < 0.5 and plan.exists():
            path, policy = self.write("p", self.changed(change_text, plan.read_bytes(), b" ,=")), "plan:"
        else:
            path, policy = self.write("p", self.changed(change_text, RULES, b" :")), "static:@"
        return [["replay", "--policy", policy + path, trace]]

    def draw_commands(self):
        return self.draw.choice((self.trace, self.trace, self.trace, self.module, self.module, self.suppressions, self.placement))()


def limit_child(sanitized):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))
    if not sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def fault_of(command, folder, sanitized):
    """None, or what is wrong. Memory is bounded as address space, which a sanitizer needs too much of."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS * (4 if sanitized else 1), cwd=folder,
                              preexec_fn=lambda: limit_child(sanitized))
    except subprocess.TimeoutExpired:
        return "takes too long"
    if done.returncode < 0:
        return f"ended by signal {-done.returncode}"
    if re.search(b"AddressSanitizer|LeakSanitizer|runtime error:", done.stderr):
        return done.stderr.decode("utf-8", "replace")
    if re.search(b"out of memory", done.stderr):
        return "needs more memory than the file explains"
    if re.search(b"[\x00-\x08\x0b-\x1f\x7f]", done.stdout + done.stderr) or re.search("[\u0080-\u009f\u202a-\u202e\u2066-\u2069]",
                                                                             (done.stdout + done.stderr).decode("utf-8", "replace")):
        return "writes control characters"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpumem")
    parser.add_argument("library")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--keep")
    options = parser.parse_args()
    options.gpumem = os.path.abspath(options.gpumem)
    sanitized = b"__asan_init" in pathlib.Path(options.gpumem).read_bytes()
    print("seed", options.seed, flush=True)
    began, number, runs, faults = time.monotonic(), 0, 0, 0
    while time.monotonic() - began < options.seconds:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(options, random.Random(options.seed * 1000003 + number), pathlib.Path(folder))
            for command in case.draw_commands():
                fault = fault_of([options.gpumem, *command], folder, sanitized)
                runs += 1
                if fault:
                    faults += 1
                    print(f"case {number}: gpumem {' '.join(command)}: {fault}", flush=True)
                    if options.keep:
                        shutil.copytree(folder, pathlib.Path(options.keep, f"{options.seed}-{number}"), dirs_exist_ok=True)
        number += 1
    print(f"{number} cases, {runs} runs, {faults} faults")
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
