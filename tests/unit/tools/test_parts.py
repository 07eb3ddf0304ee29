"""Parts of traces (--from, --until, --min-bytes) against plain counting, and traces compressed after the run."""
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
HAVE_ZSTD = sys.argv.pop(1) == "true"
KIB = 1 << 10


def random_trace(seed, count=4000):
    """The trace, and its blocks as (begin, end or None, bytes, device)."""
    dice, events, blocks, alive, now = random.Random(seed), [], [], [], 0
    for number in range(1, count + 1):
        now += dice.randrange(100, 2000)
        if alive and dice.random() < 0.45:
            block = alive.pop(dice.randrange(len(alive)))
            blocks[block][1] = now
            events.append(t.event(number, now, "free", "cuMemFree", 4096 * (block + 1), blocks[block][2], device=blocks[block][3], duration=0))
        else:
            blocks.append([now, None, dice.randrange(1, 64 * KIB), dice.randrange(2)])
            alive.append(len(blocks) - 1)
            events.append(t.event(number, now, "alloc", "cuMemAlloc", 4096 * len(blocks), blocks[-1][2], device=blocks[-1][3], duration=0))
    return t.header() + b"".join(t.chunk(b"".join(events[at:at + 4000])) for at in range(0, count, 4000)), blocks, now


def peak(blocks, device, begin, end):
    """The most live bytes of the device in the range."""
    changes = []
    for born, died, size, on in blocks:
        if on == device and born < end and (died is None or died >= begin):
            changes.append((max(born, begin), 1, size))
            if died is not None and died < end:
                changes.append((died, 0, -size))
    most = live = 0
    for _, _, size in sorted(changes):
        live += size
        most = max(most, live)
    return most


class Parts(ToolCase):
    def totals(self, *options):
        return json.loads(self.good("report", "--json", *options, "x.trace"))["traces"][0]

    def test_against_plain_counting(self):
        for seed in range(4):
            content, blocks, last = random_trace(seed)
            self.write("x.trace", content)
            for begin, end, least in ((0, None, 0), (last // 3, None, 0), (0, last // 2, 0), (last // 4, last // 2, 0), (last // 4, last // 2, 30 * KIB),
                                      (0, None, 50 * KIB), (last * 2, None, 0)):
                options = [f"--from={begin}ns"] * bool(begin) + [f"--until={end}ns"] * (end is not None) + [f"--min-bytes={least}"] * bool(least)
                found, until = self.totals(*options), last + 1 if end is None else end
                some = [block for block in blocks if block[2] >= least and block[0] < until and (block[1] is None or block[1] >= begin)]
                frees = [block for block in some if block[1] is not None and begin <= block[1] < until]
                before = [block for block in some if block[0] < begin]
                totals = found["totals"]
                self.assertEqual((totals["allocations"], totals["allocated_bytes"], totals["frees"], totals["unknown_frees"], totals["older_blocks"]),
                                 (len(some), sum(block[2] for block in some), len(frees), 0, len(before)), options)
                self.assertEqual({row["device"]: row["peak_live_bytes"] for row in found["by_device"]},
                                 {device: peak(some, device, begin, until) for device in (0, 1)}, options)

    def test_the_same_in_every_format(self):
        content, _, last = random_trace(9)
        self.write("x.trace", content)
        part = [f"--from={last // 3}ns", f"--until={last // 2}ns", "--min-bytes=1K"]
        whole = self.totals(*part)
        self.good("export", "--to=csv", "-o", "part.csv", *part, "x.trace")
        self.good("export", "--to=csv", "-o", "whole.csv", "x.trace")
        for name, options in (("part.csv", []), ("whole.csv", part)):
            found = json.loads(self.good("report", "--json", *options, name))["traces"][0]
            for field in ("totals", "by_kind", "by_device", "sites", "sizes"):
                self.assertEqual(found[field], whole[field], (name, field))

    def test_kept_blocks_and_pools(self):
        """What gpumem kept before the range is reserved in it, and goes back in it."""
        events = [t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000, 4 * KIB, kind="cache", duration=0),
                  t.event(2, 2000, "free", "cuMemFree", 0x1000, 4 * KIB, kind="cache", flags=t.KEPT, duration=0),
                  t.event(3, 2500, "pool_size", "none", 0, 64 * KIB, kind="async_", duration=0), t.event(4, 2600, "beyond", "none", 0, 5 * KIB, duration=0),
                  t.event(5, 4000, "alloc", "cuMemAlloc", 0x9000, KIB, duration=0),
                  t.event(6, 5000, "trim", "none", 0, 4 * KIB, kind="cache", reason=t.IDLE, duration=0)]
        self.write("x.trace", t.header() + t.chunk(b"".join(events)))
        totals = self.totals("--from=3us")["totals"]
        self.assertEqual((totals["peak_reserved_bytes"], totals["peak_beyond_bytes"], totals["trimmed_bytes"], totals["allocations"]),
                         (69 * KIB, 5 * KIB, 4 * KIB, 1))

    def test_blocks_live_where_a_part_ends_are_no_leaks(self):
        blocks = [t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000, 7), t.event(2, 3000, "alloc", "cuMemAlloc", 0x2000, 3),
                  t.event(3, 4000, "free", "cuMemFree", 0x1000, 7)]
        self.write("x.trace", t.header() + t.chunk(b"".join(blocks)))
        self.good("export", "--to=csv", "-o", "x.csv", "x.trace")
        for name in ("x.trace", "x.csv"):
            for until, words in (("2us", "  live: 7 B in 1 block\n"), ("1s", "  leaked: 3 B in 1 block\n")):
                out = self.good("report", f"--until={until}", name)
                self.assertIn(words, out)
                self.assertEqual(("LEAKS" in out, "note: the part ends before the program did\n" in out), (until == "1s", until == "2us"), out)
                self.assertEqual("LEAKS" in self.good("report", "--leaks", f"--until={until}", name), until == "1s")
                self.assertEqual(json.loads(self.good("report", "--json", f"--until={until}", name))["traces"][0]["process"]["stopped"], until == "2us")

    def test_phases_around_the_range(self):
        self.write("x.trace", t.header() + t.chunk(t.string(1, b"load"), kind=2) + t.chunk(
            t.event(1, 10, "phase_begin", "none", 0, 0, site=1) + t.event(2, 1000, "alloc", "cuMemAlloc", 0x1000, KIB) +
            t.event(3, 2000, "phase_end", "none", 0, 0)))
        self.assertRegex(self.good("report", "--phases", "--from=500ns", "x.trace"), r"1\.00 KiB.* load")

    def test_bad_parts(self):
        self.write("x.trace", t.sample())
        self.write("sums", t.header(version=3, summary_ns=10 ** 9) + t.packed(t.event(1, 5, "total", "none", 0, 0, device=-1)))
        for words, status, complaint in ((["--from=2", "--until=1", "x.trace"], 2, "--from and --until leave nothing"),
                                         (["--from=-1", "x.trace"], 2, "--from '-1' is not a time; accepted: seconds such as 0.5"),
                                         (["--until=5x", "x.trace"], 2, "--until '5x' is not a time"),
                                         (["--min-bytes=x", "x.trace"], 2, "--min-bytes 'x' is not a number of bytes"),
                                         (["--from=1", "sums"], 1, "a summary has no single blocks")):
            found, out, err = self.run_tool("report", *words)
            self.assertEqual((found, out, err.count("\n")), (status, "", 1), err)
            self.assertIn(complaint, err)


class Packed(ToolCase):
    def pack(self, name):
        if name.endswith(".gz"):
            with open(self.path("x.trace"), "rb") as file:
                return self.write(name, gzip.compress(file.read()))
        if not HAVE_ZSTD or not shutil.which("zstd"):
            self.skipTest("no zstd")
        subprocess.run(["zstd", "-q", "-f", "-o", self.path(name), self.path("x.trace")], check=True)
        return name

    def check(self, name):
        for content in (t.sample(), random_trace(3, 30000)[0]):
            self.write("x.trace", content)
            self.pack(name)
            self.assertEqual(self.good("report", "--peak", "--leaks", name).split("\n")[1:], self.good("report", "--peak", "--leaks", "x.trace").split("\n")[1:])
            self.assertEqual(self.good("export", "--to=csv", "-o", "-", name), self.good("export", "--to=csv", "-o", "-", "x.trace"))

    def test_gzip(self):
        self.check("x.gz")

    def test_zstd(self):
        self.check("x.zst")

    def test_a_folder(self):
        self.write("x.trace", t.sample())
        os.makedirs(self.path("f"))
        self.pack("f/a.gmt.gz")
        self.write("f/notes.gz", gzip.compress(b"something else"))
        self.assertEqual([row["file"] for row in json.loads(self.good("report", "--json", "f"))["traces"]], ["f/a.gmt.gz"])

    def test_cut_off(self):
        """What stands before the missing end is read, and that some is missing is said."""
        self.write("x.trace", random_trace(5, 30000)[0])
        for name in ("x.gz", "x.zst"):
            if name == "x.zst" and not (HAVE_ZSTD and shutil.which("zstd")):
                continue
            self.pack(name)
            with open(self.path(name), "rb") as file:
                content = file.read()
            self.write(name, content[:len(content) * 2 // 3])
            out = self.good("report", name)
            self.assertRegex(out, r"note: \d+ damaged or missing parts")
            self.assertGreater(int(out.split(" events over")[0].split("\n")[-1].replace(",", "")), 4000)

    def test_no_trace_inside(self):
        for name, content in (("a.gz", gzip.compress(b"no trace at all")), ("b.gz", b"\x1f\x8b rubbish"), ("c.zst", b"\x28\xb5\x2f\xfd rubbish")):
            self.write(name, content)
            status, out, err = self.run_tool("report", name)
            self.assertEqual((status, out, err.count("\n")), (1, "", 1))
            self.assertIn(name, err)


if __name__ == "__main__":
    unittest.main()
