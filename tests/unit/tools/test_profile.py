"""The parts of gpumem report that are shown on request, checks for continuous integration, suppressions, and several traces
as one job."""
import json
import os
import random
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
MANY_EVENTS = os.path.abspath(sys.argv.pop(1))
HAVE_JSON = sys.argv.pop(1) == "true"
M, S = 1 << 20, 10 ** 9

RECORDS = (t.device(0, 1 << 30, "Test GPU") + t.module(0x10000, 0x10000, 0x20000, "/opt/none/app") +
           t.module(0x50000, 0x50000, 0x60000, "/opt/none/libfoo.so") +
           t.site(1, [0x10100, 0x10900, 0x10999]) + t.site(2, [0x50200, 0x10900, 0x10999]) + t.site(3, [0x10300, 0x10999]))


def trace(events, records=RECORDS, **header):
    return t.header(**header) + t.chunk(records, kind=2) + t.chunk(b"".join(events))


class Profile(ToolCase):
    def report(self, events, *options):
        return self.good("report", *options, self.write("x.trace", trace(events)))

    def rows(self, out, begin):
        """Words of the lines from the one after `begin` to the next empty one."""
        lines = out.split(begin, 1)[1].split("\n")[1:]
        return [line.split() for line in lines[:lines.index("") if "" in lines else None]]

    def test_peak_is_a_tree(self):
        out = self.report([t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 6 * M, site=1),
                           t.event(2, 2, "alloc", "cuMemAlloc", 0x2000, 3 * M, site=2),
                           t.event(3, 3, "alloc", "cuMemAlloc", 0x3000, 1 * M, site=3),
                           t.event(4, 4, "free", "cuMemFree", 0x1000, 6 * M),
                           t.event(5, 5, "alloc", "cuMemAlloc", 0x4000, 2 * M, site=3)], "--peak")
        self.assertIn("live bytes                           10.00 MiB\n", out)
        tree = re.split(r"bytes +share", out)[1].split("\n")[1:]
        self.assertEqual([re.sub(r" +", " ", line.strip()) for line in tree if line],
                         ["10.00 MiB 100.0 % app+0x999", "9.00 MiB 90.0 % app+0x900", "6.00 MiB 60.0 % app+0x100",
                          "3.00 MiB 30.0 % libfoo.so+0x200", "1.00 MiB 10.0 % app+0x300"])
        column = [line.index("app+") if "app+" in line else line.index("libfoo") for line in tree if line]
        self.assertEqual([c - column[0] for c in column], [0, 2, 4, 4, 2])

    def test_leaks_released_and_toolkit(self):
        out = self.good("report", "--leaks", self.write("x.trace", t.sample()))
        self.assertRegex(out, r"  leaked +4\.00 MiB\n")
        self.assertRegex(out, r"  held by libraries of the toolkit +1\.00 MiB\n")
        self.assertRegex(out, r"  released with their context, not leaked +3\.00 MiB\n")
        self.assertRegex(out, r"4\.00 MiB +2 +3 +0 B +3\.00 MiB +1 +program +app\+0x123")

    def test_duplicates(self):
        """What became of the earlier copy, each row once."""
        out = self.report([t.event(1, 1, "alloc", "cuMemAlloc", 0x1000000, 8 * M, site=1),
                           t.event(2, 2, "alloc", "cuMemAlloc", 0x2000000, 8 * M, site=1),
                           t.copy(3, 3, 0x7000, 111, 0x1000000, 4 * M, site=2),   # first
                           t.copy(5, 4, 0x7000, 111, 0x1000000, 4 * M, site=2),   # the same address
                           t.copy(7, 5, 0x7000, 111, 0x2000000, 4 * M, site=2),   # another address
                           t.copy(9, 6, 0x7000, 222, 0x1000000, 4 * M, site=2),   # changed
                           t.copy(11, 7, 0x7000, 333, 0x2000000 + M, M, site=3),  # into the middle of the other place
                           t.copy(13, 8, 0x7000, 111, 0x1400000, 4 * M, site=3),  # both places were overwritten
                           t.event(15, 9, "free", "cuMemFree", 0x1000000, 8 * M),
                           t.copy(16, 10, 0x7000, 222, 0x2000000, 4 * M, site=3),  # freed
                           t.copy(18, 11, 0x7000, 222, 0x2000000, 2 * M, site=3),  # another size
                           t.copy(20, 12, 0x7004, 222, 0x2000000, 2 * M, site=3),  # another address of the host
                           t.copy(22, 13, 0x7004, 222, 0x2000000, 2 * M, site=3, device=1)], "--duplicates")
        self.assertIn("  4 of 10 copies (40.0 %), 16.00 MiB of 31.00 MiB, were sent again unchanged\n", out)
        self.assertEqual(self.rows(out, "when sent again, the earlier copy")[:4],
                         [text.split() for text in ("was at the same address 1 4.00 MiB", "was at another address 1 4.00 MiB",
                                                    "had been overwritten by a copy 1 4.00 MiB", "had been freed 1 4.00 MiB")])
        self.assertEqual(self.rows(out, "host memory")[:3],
                         ["0x7000 4.00 MiB 0 4 12.00 MiB app+0x300".split(), "0x7000 4.00 MiB 0 2 4.00 MiB app+0x300".split(),
                          "copies bytes again bytes again".split()])
        self.assertEqual(self.rows(out, "copies         bytes         again")[:2],
                         ["4 16.00 MiB 2 8.00 MiB libfoo.so+0x200".split(), "6 15.00 MiB 2 8.00 MiB app+0x300".split()])
        self.assertRegex(out, r"time to read and hash the contents +400 ns\n")

    def test_duplicates_that_cannot_be_known(self):
        out = self.report([t.copy(1, 1, 0x7000, 1, 0x1000, M, hashed=False),
                           t.copy(3, 2, 0x7000, 1, 0x1000, M, hashed=False),  # nobody knows whether these are the same
                           t.copy(5, 3, 0x7000, 1, 0x1000, M),
                           t.copy(7, 4, 0x7000, 1, 0x1000, M, flags=1),       # captured
                           t.copy(9, 5, 0x7000, 1, 0x1000, M, result=1),      # refused
                           t.event(11, 6, "copy", "none", 0x1000, M),         # its source was lost
                           t.copy(12, 7, 0x8000, 1, 0x1800, M, hashed=False),  # overwrites, too
                           t.copy(14, 8, 0x7000, 1, 0x1000, M)], "--duplicates")
        self.assertIn("  1 of 5 copies (20.0 %), 1.00 MiB of 5.00 MiB, were sent again unchanged\n", out)
        self.assertRegex(out, r"had been overwritten by a copy +1 +1\.00 MiB\n")
        self.assertRegex(out, r"copies with unknown contents +3\n")
        self.assertRegex(out, r"captured in graphs, not counted +1\n")

    def test_duplicates_in_arrays_and_rows(self):
        """An array is one place; rows with gaps end where their last row ends."""
        out = self.report([t.copy(1, 1, 0x7000, 1, 0x1000, 100, kind="array"), t.copy(3, 2, 0x7000, 1, 0x1010, 100, kind="array"),
                           t.copy(5, 3, 0x7000, 1, 0x1000, 100, kind="array"),
                           t.copy(7, 4, 0x9000, 5, 0x5000, 64, slack=192), t.copy(9, 5, 0x9900, 6, 0x50c0, 64),
                           t.copy(11, 6, 0x9000, 5, 0x5000, 64, slack=192)], "--duplicates")
        self.assertRegex(out, r"was at the same address +1 +100 B\n")
        self.assertRegex(out, r"was at another address +1 +100 B\n")
        self.assertRegex(out, r"had been overwritten by a copy +1 +64 B\n")

    def test_duplicates_of_threads(self):
        """Sources and copies of two threads, one between those of the other."""
        one, other = t.copy(1, 1, 0x7000, 1, 0x1000, M), t.copy(2, 1, 0x8000, 1, 0x1000000, M)
        one, other = [one[:64], t.event(3, 1, "copy", "none", 0x1000, M)], [other[:64], t.event(4, 1, "copy", "none", 0x1000000, M)]
        again = t.copy(5, 2, 0x7000, 1, 0x1000, M)
        self.write("two.trace", t.header() + t.chunk(b"".join(one) + again, thread=100) + t.chunk(b"".join(other), thread=101))
        self.assertIn("  1 of 3 copies", self.good("report", "--duplicates", "two.trace"))

    def test_duplicates_of_one_call_site(self):
        """Two stacks of the same call site are one row."""
        copies = [t.copy(2 * i + 1, i, 0x7000, 1, 0x1000, M, site=9 - i % 2) for i in range(5)]
        self.write("x.trace", trace(copies, RECORDS + t.site(8, [0x10500]) + t.site(9, [0x10500, 0x10999])))
        rows = self.rows(self.good("report", "--duplicates", "x.trace"), "copies         bytes         again")
        self.assertEqual(rows[0], "5 5.00 MiB 4 4.00 MiB app+0x500".split())

    def test_duplicates_without_copies(self):
        out = self.good("report", "--duplicates", self.write("x.trace", t.sample()))
        self.assertIn("  the trace has no copies: gpumem run --trace-copies records them\n", out)

    @unittest.skipUnless(HAVE_JSON, "built without jansson")
    def test_duplicates_as_json(self):
        self.write("x.trace", trace([t.copy(1, 1, 0x7000, 1, 0x1000, M, site=1), t.copy(3, 2, 0x7000, 1, 0x1000, M, site=1)]))
        part = json.loads(self.good("report", "--duplicates", "--json", "x.trace"))["traces"][0]["duplicates"]
        self.assertEqual([part[name] for name in ("copies", "copied_bytes", "repeats", "repeated_bytes", "unknown", "captured", "hashing_ns")],
                         [2, 2 * M, 1, M, 0, 0, 80])
        row = part["contents"][0]
        self.assertEqual((row["host_address"], row["bytes"], row["device"], row["copies"], row["repeated_bytes"], row["site"]["text"]),
                         ("0x7000", M, 0, 2, M, "app+0x100"))
        row = part["sites"][0]
        self.assertEqual((row["copies"], row["copied_bytes"], row["repeats"], row["repeated_bytes"], row["site"]["text"]), (2, 2 * M, 1, M, "app+0x100"))

    def test_copies_change_no_other_part(self):
        """A trace with copies has the same totals, sites and peaks as without."""
        events = [t.event(1, 1, "alloc", "cuMemAlloc", 0x1000000, 8 * M, site=1), t.event(9, 9, "free", "cuMemFree", 0x1000000, 8 * M)]
        with_copies = [events[0], t.copy(3, 3, 0x7000, 111, 0x1000000, 4 * M, site=2), events[1]]
        parts = ("--peak", "--leaks", "--sizes", "--lifetimes", "--threads", "--kinds", "--growth", "--oom", "--phases", "--temporary")
        self.assertEqual(self.report(events, *parts).split("\n")[3:], self.report(with_copies, *parts).split("\n")[3:])

    def test_temporary(self):
        out = self.good("report", "--temporary", "--stacks", self.write("x.trace", t.sample()))
        self.assertRegex(out, r"\n +2 +2 +10\.00 MiB  app\+0x456\n +from app\+0x789\n")

    def test_only_what_is_freed_at_once_is_temporary(self):
        """Of three blocks the one is temporary that its own thread freed before it allocated again."""
        def events(*rows):
            calls = {"alloc": "cuMemAlloc", "free": "cuMemFree"}
            return b"".join(t.event(seq, seq, action, calls[action], address, 10 * seq, site=1) for seq, action, address in rows)
        self.write("x.trace", t.header() + t.chunk(RECORDS, kind=2) +
                   t.chunk(events((1, "alloc", 0x1000), (2, "alloc", 0x2000), (3, "free", 0x1000), (4, "alloc", 0x3000),
                                  (6, "free", 0x2000)), thread=5) + t.chunk(events((5, "free", 0x3000)), thread=6))
        self.assertRegex(self.good("report", "--temporary", "x.trace"), r"\n  blocks +0\n  bytes +0 B\n")
        self.write("x.trace", t.header() + t.chunk(RECORDS, kind=2) +
                   t.chunk(events((1, "alloc", 0x1000), (2, "alloc", 0x2000), (3, "free", 0x2000), (4, "free", 0x1000))))
        self.assertRegex(self.good("report", "--temporary", "x.trace"), r"\n  blocks +1\n  bytes +20 B\n")

    def test_sizes(self):
        out = self.report([t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 1023), t.event(2, 2, "alloc", "cuMemAlloc", 0x2000, 1024),
                           t.event(3, 3, "free", "cuMemFree", 0x2000, 1024),
                           t.event(4, 4, "alloc", "cuMemAlloc", 0x3000, 2047)], "--sizes")
        self.assertRegex(out, r"\n +512 B +1\.00 KiB +1 +1023 B +1023 B\n +1\.00 KiB +2\.00 KiB +2 +3\.00 KiB +2\.00 KiB\n")

    def thresholds(self, out):
        """threshold as text: (peak of what lives at most that long, peak of the rest, fits)"""
        rows = [line for line in out.split("async peak")[1].split("\n")[1:] if line]
        cells = [re.split(r" {2,}", row.strip()) for row in rows]
        return {cell[1]: (cell[2], cell[3], cell[5]) for cell in cells if cell[0] == "0"}

    def test_lifetimes_and_thresholds(self):
        """One block of 1 MiB for 0.5 ms, one of 2 MiB for 3 s, one of 1 GiB for ever: by hand."""
        out = self.report([t.event(1, 0, "alloc", "cuMemAlloc", 0x1000, 1 << 30, duration=0),
                           t.event(2, 0, "alloc", "cuMemAlloc", 0x2000, 2 * M, duration=0),
                           t.event(3, 1000, "alloc", "cuMemAlloc", 0x3000, M, duration=0),
                           t.event(4, 501000, "free", "cuMemFree", 0x3000, M),
                           t.event(5, 3 * S, "free", "cuMemFree", 0x2000, 2 * M)], "--lifetimes")
        self.assertIn("33.3 % of all blocks lived less than one second", out)
        self.assertRegex(out, r"\n +1 ms +1 +1\.00 MiB\n +4\.00 s +1 +2\.00 MiB\n")
        table = self.thresholds(out)
        self.assertEqual(len(table), 13)  # 2^-10 s to 4 s, which no block of the run outlives
        self.assertEqual(table["977 us"], ("1.00 MiB", "1.00 GiB", "yes"))
        self.assertEqual(table["2.00 s"], ("1.00 MiB", "1.00 GiB", "yes"))
        self.assertEqual(table["4.00 s"], ("3.00 MiB", "1.00 GiB", "yes"))

    def test_one_second_is_not_below_one_second(self):
        """Blocks of one size that live a nanosecond less than a second, exactly one, and exactly two."""
        events = [t.event(i, 0, "alloc", "cuMemAlloc", 0x1000 * i, M, duration=0) for i in (1, 2, 3)]
        events += [t.event(i + 3, end, "free", "cuMemFree", 0x1000 * i, M) for i, end in ((1, S - 1), (2, S), (3, 2 * S))]
        out = self.report(events, "--lifetimes")
        self.assertIn("33.3 % of all blocks lived less than one second", out)
        self.assertEqual([row[:3] for row in self.rows(out, "lived below")[:3]], [["1.00", "s", "1"], ["2.00", "s", "1"], ["4.00", "s", "1"]])

    def test_thresholds_do_not_fit(self):
        events = []
        for i in range(4):  # 4 x 400 MiB, each alive for 2 s, all at the same time, on a card of 1 GiB
            events.append(t.event(i + 1, i, "alloc", "cuMemAlloc", 0x1000 * (i + 1), 400 * M, duration=0))
        events += [t.event(i + 5, 2 * S, "free", "cuMemFree", 0x1000 * (i + 1), 400 * M) for i in range(4)]
        table = self.thresholds(self.report(events, "--lifetimes"))
        self.assertEqual(table["1.00 s"], ("0 B", "1.56 GiB", "yes"))
        self.assertEqual(table["2.00 s"], ("1.56 GiB", "0 B", "no"))

    def test_thresholds_agree_with_brute_force(self):
        """Random blocks; the peaks of each threshold recomputed from the objects that the tool lists."""
        r, events, alive, seq, allocations = random.Random(5), [], [], 0, 0
        for i in range(1500):
            seq += 1
            now = seq * 3_000_000
            if alive and r.random() < 0.45:
                address, size = alive.pop(r.randrange(len(alive)))
                events.append(t.event(seq, now, "free", "cuMemFree", address, size, duration=0))
            else:
                address, size = 0x1000 * seq, r.randrange(1, 10 * M)
                alive.append((address, size))
                allocations += 1
                events.append(t.event(seq, now, "alloc", "cuMemAlloc", address, size, duration=0))
        self.write("x.trace", trace(events))
        objects = [line.split() for line in self.good("report", "--objects", "x.trace").splitlines()]
        objects = [(int(o[4]), int(o[5]) if o[5] != "-" else None, int(o[1])) for o in objects if o and o[0].isdigit() and len(o) == 8]
        self.assertEqual(len(objects), allocations)
        table = self.thresholds(self.good("report", "--lifetimes", "x.trace"))

        def peak(chosen):
            changes = sorted([(b, 1, s) for b, e, s in chosen] + [(e, 0, -s) for b, e, s in chosen if e is not None])
            live = most = 0
            for _, _, change in changes:
                live += change
                most = max(most, live)
            return most

        def shown(size):
            for unit in ("B", "KiB", "MiB"):
                if size < 1023.995:
                    break
                size /= 1024
            else:
                unit = "GiB"
            return ("%.0f %s" if unit == "B" else "%.2f %s") % (size, unit)

        for text, limit in (("125 ms", S // 8), ("500 ms", S // 2), ("1.00 s", S), ("2.00 s", 2 * S)):
            short = [o for o in objects if o[1] is not None and o[1] - o[0] <= limit]
            rest = [o for o in objects if o not in short]
            self.assertEqual(table[text][:2], (shown(peak(short)), shown(peak(rest))), text)

    def test_objects(self):
        out = self.report([t.event(1, 100, "alloc", "cuMemAlloc", 0x1000, 10, site=1, duration=5),
                           t.event(2, 200, "alloc", "cuMemAlloc", 0x2000, 20, site=2, duration=5),
                           t.event(3, 300, "free", "cuMemFree", 0x1000, 10)], "--objects", "--top", "1")
        self.assertEqual([line.split() for line in out.splitlines()[-6:]],
                         [["1", "10", "native", "0", "105", "300", "195", "1"], ["2", "20", "native", "0", "205", "-", "-", "2"],
                          "call sites by their numbers".split(), ["site"], ["1", "app+0x100"], ["2", "libfoo.so+0x200"]])

    def test_threads_and_streams(self):
        data = (t.header() + t.chunk(t.event(1, 1, "alloc", "cuMemAllocAsync", 0x1000, 10, stream=0x7) +
                                     t.event(3, 3, "alloc_fail", "cuMemAlloc", 0, 99, result=2), thread=5) +
                t.chunk(t.event(2, 2, "free", "cuMemFreeAsync", 0x1000, 10, stream=0x8), thread=6))
        self.write("x.trace", data)
        out = self.good("report", "--threads", "--streams", "x.trace")
        self.assertRegex(out, r"\n +5 +1 +10 B +0 +0 +1 +10 B ")
        self.assertRegex(out, r"\n +6 +0 +0 B +1 +1 +0 +0 B ")
        self.assertRegex(out, r"\n +1 +0x7 +1 +10 B +0 +0 +10 B ")
        self.assertRegex(out, r"\n +1 +0x8 +0 +0 B +1 +1 +0 B ")

    def test_kinds(self):
        out = self.good("report", "--kinds", self.write("x.trace", t.sample()))
        self.assertRegex(out, r"\n +async +1 +2\.00 MiB +1 +0 +0 B +2\.00 MiB +0 B\n")

    def test_growth(self):
        """A vector that doubles five times, and blocks that come and go without growing."""
        events, seq, size, address = [], 0, M, 0x100000
        for i in range(6):
            seq += 1
            events.append(t.event(seq, seq * 1000, "alloc", "cuMemAlloc", address + i * 0x1000, size << i, site=1))
            if i:
                seq += 1
                events.append(t.event(seq, seq * 1000, "free", "cuMemFree", address + (i - 1) * 0x1000, size << (i - 1)))
        for i in range(20):
            seq += 2
            events.append(t.event(seq - 1, seq * 1000, "alloc", "cuMemAlloc", 0x900000, M, site=2))
            events.append(t.event(seq, seq * 1000, "free", "cuMemFree", 0x900000, M))
        out = self.report(events, "--growth")
        self.assertRegex(out, r"  times +5\n  bytes copied at most +31\.00 MiB\n  largest block held twice +16\.00 MiB\n"
                              r"  of the peak were old blocks +16\.00 MiB\n")
        self.assertRegex(out, r"\n +5 +31\.00 MiB +16\.00 MiB  app\+0x100\n")
        self.assertNotIn("libfoo", out)

    def test_growth_needs_haste_and_ratio(self):
        def pair(later, factor):
            return self.report([t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, M, site=1),
                                t.event(2, 2, "alloc", "cuMemAlloc", 0x2000, M * factor, site=1),
                                t.event(3, later, "free", "cuMemFree", 0x1000, M)], "--growth")
        self.assertRegex(pair(1000, 4), r"  times +1\n")
        self.assertRegex(pair(2 * S, 4), r"  times +0\n")
        self.assertRegex(pair(1000, 5), r"  times +0\n")
        self.assertRegex(pair(1000, 1), r"  times +0\n")

    def reserved(self, *events):
        """The part, and the peak of the totals."""
        document = json.loads(self.report(events, "--reserved", "--json"))["traces"][0]
        return document["reserved"], document["totals"]["peak_reserved_bytes"]

    def test_kept_blocks_are_reserved(self):
        def cached(number, action, address, size, **more):
            return t.event(number, 1000 * number, action, "cuMemAlloc" if action == "alloc" else "cuMemFree", address, size, kind="cache",
                           duration=10, **more)

        part, peak = self.reserved(cached(1, "alloc", 0x1000, 6 * M, slack=M), cached(2, "free", 0x1000, 6 * M, flags=t.KEPT),
                                   cached(3, "alloc", 0x2000, 10 * M), cached(4, "alloc", 0x1000, 5 * M, slack=2 * M, hit=1),
                                   cached(5, "free", 0x2000, 10 * M), cached(6, "free", 0x1000, 5 * M, flags=t.KEPT),
                                   t.event(7, 7000, "trim", "none", 0, 7 * M, kind="cache", reason=t.IDLE))
        rows = [(row["live_bytes"] // M, row["kept_bytes"] // M, row["reserved_bytes"] // M) for row in part["over_time"]]
        self.assertEqual(rows[1:], [(6, 0, 7), (6, 7, 7), (10, 7, 17), (15, 7, 17), (15, 0, 17), (5, 7, 7), (0, 7, 7)])
        self.assertEqual((peak, part["peak_bytes"], part["live_bytes"], part["kept_bytes"]), (17 * M, 17 * M, 15 * M, 0))
        self.assertEqual([(row["reason"], row["count"], row["bytes"]) for row in part["trims"]], [("idle", 1, 7 * M)])

    def test_older_traces_say_nothing_of_kept_blocks(self):
        part, peak = self.reserved(t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000, 6 * M, kind="cache"),
                                   t.event(2, 2000, "free", "cuMemFree", 0x1000, 6 * M, kind="cache"),
                                   t.event(3, 3000, "alloc", "cuMemAlloc", 0x1000, 6 * M, kind="cache", hit=1),
                                   t.event(4, 4000, "trim", "none", 0, 6 * M, reason=t.OUT_OF_MEMORY),
                                   t.event(5, 5000, "alloc", "cuMemAlloc", 0x2000, 1 * M, kind="async_"))
        self.assertEqual((peak, part["trims"][0]["count"]), (7 * M, 1))

    def test_the_size_of_a_pool_counts_as_a_whole(self):
        part, peak = self.reserved(t.event(1, 1000, "pool_size", "none", 0, 32 * M, kind="async_", context=0),
                                   t.event(2, 1100, "alloc", "cuMemAlloc", 0x1000, 3 * M, kind="async_"),
                                   t.event(3, 1200, "free", "cuMemFree", 0x1000, 3 * M, kind="async_", flags=t.KEPT),
                                   t.event(4, 2000, "trim", "none", 0, 3 * M, kind="async_", reason=t.OUT_OF_MEMORY),
                                   t.event(5, 2000, "trim", "none", 0, 0, kind="cache", reason=t.OUT_OF_MEMORY),
                                   t.event(6, 2000, "pool_size", "none", 0, 0, kind="async_", context=0, reason=t.OUT_OF_MEMORY),
                                   t.event(7, 3000, "alloc", "cuMemAlloc", 0x9000, 40 * M))
        self.assertEqual((peak, part["live_bytes"], part["kept_bytes"]), (40 * M, 40 * M, 0))
        self.assertEqual(part["over_time"][1]["reserved_bytes"], 32 * M)
        self.assertEqual([(row["reason"], row["count"], row["bytes"]) for row in part["trims"]], [("out-of-memory", 1, 32 * M)])

    def test_beyond_gpumem(self):
        events = [t.event(1, 1000, "beyond", "none", 9 * M, 500 * M, context=0, reason=0),
                  t.event(2, 1000, "held", "none", 0, 3 * M, context=0, reason=t.FENCE),
                  t.event(3, 2000, "beyond", "none", 9 * M, 900 * M, context=0, reason=0, device=1),
                  t.event(4, 3000, "beyond", "none", 9 * M, 400 * M, context=0, reason=0),
                  t.event(5, 3000, "held", "none", 0, 2 * M, context=0, reason=t.PARTLY_USED)]
        part, _ = self.reserved(*events)
        self.assertEqual((part["beyond_peak_bytes"], part["beyond_bytes"], part["beyond_measured"]), (1400 * M, 1300 * M, 3))
        self.assertEqual([(row["reason"], row["peak_bytes"], row["bytes"]) for row in part["held"]],
                         [("fence", 3 * M, 0), ("partly-used", 2 * M, 2 * M)])
        self.assertRegex(self.report(events), r"beyond gpumem +1\.37 GiB at 2 us: contexts, modules, graphs, libraries\n")
        self.assertRegex(self.report([t.event(1, 9, "beyond", "none", 0, M, flags=t.SHARED)]), "libraries; other processes of the card included")

    def test_a_long_trace_has_few_rows(self):
        part, _ = self.reserved(*(t.event(n, n * n * S, "alloc", "cuMemAlloc", 0x1000 * n, M) for n in range(1, 2000)))
        rows = [row["reserved_bytes"] for row in part["over_time"]]
        self.assertEqual((rows[-1], sorted(rows)), (1999 * M, rows))
        self.assertLessEqual(len(rows), 400)

    def test_oom(self):
        out = self.report([t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 300 * M, site=1, kind="cache", slack=M),
                           t.event(2, 2, "alloc", "cuMemAlloc", 0x2000, 500 * M, site=2, slack=M),
                           t.event(3, 3, "free", "cuMemFree", 0x1000, 300 * M, kind="cache", flags=t.KEPT),
                           t.event(4, 4, "alloc_fail", "cuMemAlloc", 0, 400 * M, site=3, result=2),
                           t.event(5, 5, "alloc_fail", "cuMemAlloc", 0, 600 * M, site=3, result=2),
                           t.event(6, 6, "alloc_fail", "cuMemAlloc", 0, 2 << 30, site=3, result=2),
                           t.event(7, 7, "alloc_fail", "cuMemAlloc", 0, 10, site=3, result=2),
                           t.event(8, 8, "alloc_fail", "cuMemAlloc", 0, 0, site=3, result=1)], "--oom")
        self.assertRegex(out, r"\n +1 +4 ns +400\.00 MiB +0 +500\.00 MiB +802\.00 MiB +301\.00 MiB +1\.00 GiB .*kept memory")
        for number, why in ((2, "this process holds too much"), (3, "larger than the device's memory"), (4, "other processes or fragmentation"),
                            (5, "not a lack of memory")):
            self.assertRegex(out, r"\n +%d .*%s  app\+0x300\n" % (number, why))
        self.assertRegex(out, r"\n +1 +500\.00 MiB  libfoo\.so\+0x200\n")

    OUT_OF_ROOM = [t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 300 * M, site=1, kind="cache"),
                   t.event(2, 2, "free", "cuMemFree", 0x1000, 300 * M, kind="cache"),
                   t.event(3, 3, "trim", "cuMemAlloc", 0, 300 * M, reason=t.OUT_OF_MEMORY),
                   t.event(4, 4, "alloc", "cuMemAlloc", 0x2000, 700 * M, site=2),
                   t.event(5, 5, "alloc", "cuMemAlloc", 0x3000, 400 * M, site=2, kind="host_numa", reason=t.OUT_OF_MEMORY),
                   t.event(6, 6, "alloc", "cuMemAlloc", 0x4000, 200 * M, site=3, kind="managed", reason=t.OUT_OF_MEMORY),
                   t.event(7, 7, "alloc", "cuMemAlloc", 0x5000, 100 * M, site=2, kind="host_numa", reason=t.OUT_OF_MEMORY),
                   t.event(8, 8, "alloc", "cuMemAlloc", 0x6000, M, site=1, kind="managed"),
                   t.event(9, 9, "alloc_fail", "cuMemAlloc", 0, 50 * M, site=3, result=2, reason=t.OUT_OF_MEMORY),
                   t.event(10, 10, "alloc_fail", "cuMemAlloc", 0, 60 * M, site=3, result=2)]

    def test_oom_steps(self):
        """Trims, memory from elsewhere and failures are told apart; host memory is none of the card's."""
        out = self.report(self.OUT_OF_ROOM, "--oom")
        self.assertEqual([row[:4] for row in self.rows(out, "first at")[:4]],
                         [["trim", "1", "300.00", "MiB"], ["host", "2", "500.00", "MiB"], ["managed", "1", "200.00", "MiB"],
                          ["fail", "2", "110.00", "MiB"]])
        self.assertRegex(out, r"\n +host-numa +2 +500\.00 MiB  libfoo\.so\+0x200\n +managed +1 +200\.00 MiB  app\+0x300\n")
        self.assertRegex(out, r"\n +1 +9 ns +50\.00 MiB +0 +901\.00 MiB +901\.00 MiB +0 B +1\.00 GiB .*GPUMEM_LIMIT")
        self.assertRegex(out, r"\n +2 +10 ns .*other processes or fragmentation")

    def test_host_memory_behind_the_card(self):
        path = self.write("x.trace", trace(self.OUT_OF_ROOM))
        kinds = self.good("report", "--kinds", path)
        self.assertRegex(kinds, r"\n +host-numa +2 +500\.00 MiB +0 +0 +500\.00 MiB +500\.00 MiB +-\n")
        self.assertRegex(kinds, r"\n +managed +2 +201\.00 MiB .* 201\.00 MiB\n")
        # What would live where, were all of it the card's, counts what had to go to the host.
        self.assertRegex(self.good("report", "--lifetimes", path), r" 1\.37 GiB ")

    @unittest.skipUnless(HAVE_JSON, "built without jansson")
    def test_json_has_every_part(self):
        names = ("peak", "leaks", "temporary", "sizes", "lifetimes", "objects", "threads", "streams", "kinds", "growth", "oom")
        self.write("x.trace", t.sample())
        document = json.loads(self.good("report", "--json", *("--" + name for name in names), "x.trace"))
        one = document["traces"][0]
        self.assertEqual(one["peak"]["tree"][0], {"bytes": 8 * M, "depth": 0, "frame": "app+0x789"})
        self.assertEqual(one["leaks"]["leaked_bytes"], 4 * M + 512)  # 512 of the host
        self.assertEqual(len(one["objects"]["rows"]), 6)
        numbers = {row["number"] for row in one["objects"]["sites"]}
        self.assertTrue({row["site_number"] for row in one["objects"]["rows"]} <= numbers, numbers)
        self.assertEqual(len(one["lifetime_distribution"]["thresholds"]), 20)
        self.assertEqual(one["out_of_memory"]["requests"][0]["bytes"], 1 << 40)
        self.assertEqual(one["out_of_memory"]["holders"][0]["site"]["module"], "/opt/none/app")
        for name in ("temporary", "size_histogram", "threads", "streams", "kinds", "growth"):
            self.assertIn(name, one)
        self.assertIn("sites", json.loads(self.good("report", "--json", "x.trace"))["traces"][0])

    # checks

    def test_fail_on_leak(self):
        self.write("x.trace", t.sample())
        self.assertEqual(self.run_tool("report", "--fail-on-leak", "x.trace")[::2],
                         (3, "gpumem: x.trace: leaked 4.00 MiB in 2 blocks\n"))
        self.assertEqual(self.run_tool("report", "--fail-on-leak=4M", "x.trace")[0], 3)
        self.assertEqual(self.run_tool("report", "--fail-on-leak=5MiB", "x.trace")[0], 0)

    def test_limit(self):
        self.write("x.trace", t.sample())
        self.assertEqual(self.run_tool("report", "--limit=16MiB", "x.trace")[0], 0)
        self.assertEqual(self.run_tool("report", "--limit", "15M", "x.trace")[::2],
                         (3, "gpumem: x.trace: peak of 16.00 MiB is above the limit of 15.00 MiB\n"))

    def test_bad_values(self):
        self.write("x.trace", t.sample())
        for arguments, words in ((["--limit", "much"], "--limit 'much' is not a number of bytes"),
                                 (["--fail-on-leak=x"], "--fail-on-leak 'x' is not a number of bytes")):
            status, _, err = self.run_tool("report", *arguments, "x.trace")
            self.assertEqual((status, err.count("\n")), (2, 1))
            self.assertIn(words, err)

    # suppressions

    def suppress(self, text, *options):
        self.write("s.txt", text)
        self.write("x.trace", trace([t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, M, site=1),
                                     t.event(2, 2, "alloc", "cuMemAlloc", 0x2000, 2 * M, site=2),
                                     t.event(3, 3, "alloc", "cuMemAlloc", 0x3000, 4 * M, site=3)]))
        return self.run_tool("report", "--leaks", "--suppressions", "s.txt", *options, "x.trace")

    def suppressed(self, *frames):
        status, out, err = self.suppress("# known\n{\n  my name\n  gpumem:leak\n" + "".join("  %s\n" % f for f in frames) + "}\n")
        self.assertEqual((status, err), (0, ""))
        return re.search(r"  suppressed +(\S+ \S+)\n", out).group(1)

    def test_suppressions_match(self):
        self.assertEqual(self.suppressed("obj:libfoo*"), "2.00 MiB")
        self.assertEqual(self.suppressed("obj:/opt/none/lib*.so"), "2.00 MiB")
        self.assertEqual(self.suppressed("site:app+0x100"), "1.00 MiB")
        self.assertEqual(self.suppressed("...", "site:app+0x900"), "3.00 MiB")
        self.assertEqual(self.suppressed("obj:app", "site:app+0x900"), "1.00 MiB")
        self.assertEqual(self.suppressed("obj:*", "obj:*", "obj:*"), "3.00 MiB")
        self.assertEqual(self.suppressed("obj:*", "...", "site:app+0x9?9"), "7.00 MiB")
        self.assertEqual(self.suppressed("site:app+0x900"), "0 B")
        self.assertEqual(self.suppressed("fun:*"), "7.00 MiB")
        self.assertEqual(self.suppressed("fun:?*"), "0 B")

    def test_suppressions_are_charged_and_silence_the_check(self):
        text = "{\n a\n gpumem:leak\n site:app+0x100\n}\n\n{\n b\n gpumem:leak\n obj:*\n}\n{\n c\n gpumem:leak\n obj:*\n}\n"
        status, out, err = self.suppress(text, "--fail-on-leak")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"\n  a +1 +1\.00 MiB\n  b +2 +6\.00 MiB\n  c +0 +0 B\n")
        self.assertEqual(self.suppress("", "--fail-on-leak")[0], 3)

    def test_suppressions_name_the_wrong_line(self):
        for text, line in (("x\n", "s.txt:1: expected {"), ("{\n name\n Memcheck:Leak\n", "s.txt:3: expected gpumem:leak or gpumem:error"),
                           ("\n# c\n{\n n\n gpumem:leak\n what:x\n}\n", "s.txt:6: expected fun:, obj:, src:, site:, ... or }"),
                           ("{\n n\n gpumem:leak\n}\n", "s.txt:4: a suppression without frames"),
                           ("{\n}\n", "s.txt:2: a suppression without a name"),
                           ("{\n n\n gpumem:leak\n fun:\n}\n", "s.txt:4: a frame without a pattern"),
                           ("{\n n\n gpumem:leak\n fun:x\n", "s.txt:4: the file ends within a suppression"),
                           ("{\n n\n gpumem:leak\n" + " obj:*\n" * 65 + "}\n", "s.txt:68: more frames than")):
            status, out, err = self.suppress(text)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1))
            self.assertIn("gpumem: " + line, err)
        self.assertIn("No such file", self.run_tool("report", "--suppressions", "none", "x.trace")[2])

    # memory errors

    ERRORS = ((2, 1, 2, 3, b"kernel f gets a pointer to freed memory"), (3, 1, 2, 3, b"illegal address"), (1, 0, 3, 0, b"4 bytes were written"),
              (5, 2, 1, 0, b"possible race: kernel f"))

    def errors(self, *options, suppressions=None):
        """Rows are kind, call, allocation, free, text; the second follows from the first."""
        records = RECORDS + b"".join(t.string(0x80000000 + i, row[4]) for i, row in enumerate(self.ERRORS))
        events = [t.event(1 + i, 1000, "memory_error", "none", 0x1000, M, result=kind, site=call, slack=allocated, hit=int(i == 1),
                          stream=freed << 32 | 0x80000000 + i) for i, (kind, call, allocated, freed, _) in enumerate(self.ERRORS)]
        if suppressions:
            self.write("s.txt", suppressions)
            options += "--suppressions", "s.txt"
        return self.run_tool("report", *options, self.write("x.trace", trace(events, records)))

    def test_memory_errors(self):
        status, out, err = self.errors("--memory-errors")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual([re.sub(" +", " ", line) for line in out.split("MEMORY ERRORS")[1].split("\n")[1:7]],
                         [" use-after-free at 1 us", " kernel f gets a pointer to freed memory", " call app+0x100", " allocated by libfoo.so+0x200",
                          " freed by app+0x300", " device-fault at 1 us, follows from the one before"])
        self.assertIn("memory errors: 2; suppressed: 0; possible races: 1\n", out)
        self.assertIn("MEMORY ERRORS", self.errors()[1])
        self.assertNotIn("MEMORY ERRORS", self.report([t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, M, site=1)]))
        self.assertIn("  none: ", self.report([t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, M, site=1)], "--memory-errors"))

    def test_fail_on_error(self):
        status, _, err = self.errors("--fail-on-error")
        self.assertEqual((status, err), (3, "gpumem: x.trace: memory errors: 2\n"))
        self.assertEqual(self.errors()[0], 0)

    def test_suppressed_errors(self):
        freed, allocated = ("{\n %s\n gpumem:error\n site:app+0x300\n}\n" % name for name in "ab")
        self.assertEqual(self.errors("--fail-on-error", suppressions=freed)[0], 0)
        self.assertIn("memory errors: 0; suppressed: 3; possible races: 1\n", self.errors(suppressions=allocated)[1])
        status, out, _ = self.errors("--fail-on-error", suppressions="{\n a\n gpumem:leak\n obj:*\n}\n{\n b\n gpumem:error\n obj:none\n}\n")
        self.assertIn("memory errors: 2; suppressed: 0;", out)
        self.assertEqual(status, 3)

    @unittest.skipUnless(HAVE_JSON, "built without jansson")
    def test_memory_errors_as_json(self):
        found = json.loads(self.errors("--json", "--memory-errors")[1])["traces"][0]["memory_errors"]
        self.assertEqual((found["count"], found["suppressed"], found["possible_races"], len(found["errors"])), (2, 0, 1, 4))
        self.assertEqual(found["errors"][0], {"error": "use-after-free", "text": "kernel f gets a pointer to freed memory", "time_ns": 1000,
                                              "address": "0x1000", "bytes": M, "device": 0, "state": None, "call": "app+0x100",
                                              "allocated_by": "libfoo.so+0x200", "freed_by": "app+0x300"})

    @unittest.skipUnless(HAVE_JSON, "built without jansson")
    def test_sarif(self):
        status, out, _ = self.errors("--sarif", "--fail-on-error", suppressions="{\n a\n gpumem:error\n site:app+0x300\n}\n")
        document = json.loads(out)
        (run,) = document["runs"]
        self.assertEqual((status, document["version"], run["tool"]["driver"]["name"]), (0, "2.1.0", "gpumem"))
        known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
        self.assertEqual([(row["ruleId"], row["level"], "suppressions" in row) for row in run["results"]],
                         [("use-after-free", "error", True), ("device-fault", "error", True), ("out-of-bounds", "error", True),
                          ("possible-race", "note", False)])
        self.assertTrue({row["ruleId"] for row in run["results"]} < known)
        self.assertEqual([place["logicalLocations"][0]["fullyQualifiedName"] for row in run["results"][:1]
                          for place in row["locations"] + row["relatedLocations"]], ["app+0x100", "libfoo.so+0x200", "app+0x300"])
        self.assertEqual(run["results"][2]["locations"][0]["message"]["text"], "allocated here")
        self.write("y.trace", trace([t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, M, site=1)]))
        (leak,) = json.loads(self.good("report", "--sarif", "y.trace"))["runs"][0]["results"]
        self.assertEqual((leak["ruleId"], leak["message"]["text"]), ("leak", "1.00 MiB of GPU memory leaked in 1 block"))
        self.assertEqual(self.run_tool("report", "--sarif", "--json", "y.trace")[0], 2)

    # several traces

    def job(self):
        """Two ranks of one host on device 0, one after the other half of the time, and one of another host."""
        def one(rank, pid, epoch, host, size):
            return trace([t.event(1, 0, "alloc", "cuMemAlloc", 0x1000, size, duration=0),
                          t.event(2, 10 * S, "free", "cuMemFree", 0x1000, size)], rank=rank, pid=pid, epoch=epoch, host=host)
        self.write("job/a.trace", one(1, 11, 105 * S, b"north", 3 * M))
        self.write("job/b.trace", one(0, 10, 100 * S, b"north", 2 * M))
        self.write("job/c.trace", one(2, 12, 120 * S, b"south", 7 * M))
        # leaks 5 MiB and ends before the others begin
        self.write("job/d.trace", trace([t.event(1, 0, "alloc", "cuMemAlloc", 0x1000, 5 * M)], rank=3, pid=13, epoch=90 * S,
                                        host=b"north"))
        self.write("job/notes.txt", "no trace")

    def test_job(self):
        self.job()
        out = self.good("report", "--processes", "job")
        order = [line.split()[:3] for line in out.splitlines() if line.endswith(".trace")]
        self.assertEqual(order, [["0", "north", "10"], ["1", "north", "11"], ["2", "south", "12"], ["3", "north", "13"]])
        self.assertRegex(out, r"\n  north +0 +3 +5\.00 MiB +")
        self.assertRegex(out, r"\n  south +0 +1 +7\.00 MiB +30\.00 s\n")
        self.assertNotIn("TOTALS", out)
        self.assertEqual(self.good("report", "job").count("TOTALS"), 4)

    def test_job_adds_up_what_falls_together(self):
        self.job()
        out = self.good("report", "--processes", "job/a.trace", "job/b.trace")
        self.assertRegex(out, r"\n  north +0 +2 +5\.00 MiB +5\.00 s\n")
        status, _, err = self.run_tool("report", "--processes", "--limit=4M", "job/a.trace", "job/b.trace")
        self.assertEqual((status, err), (3, "gpumem: device 0 of north: peak of 5.00 MiB of all processes is above the limit of "
                                            "4.00 MiB\n"))

    def test_folder_without_traces(self):
        os.mkdir(self.path("empty"))
        self.assertEqual(self.run_tool("report", "empty"), (1, "", "gpumem: empty: no traces in this folder\n"))

    def test_one_bad_file_does_not_hide_the_others(self):
        self.write("good.trace", t.sample())
        self.write("bad.trace", t.header(version=9))
        status, out, err = self.run_tool("report", "bad.trace", "good.trace")
        self.assertEqual(status, 1)
        self.assertIn("TOTALS", out)
        self.assertIn("bad.trace: trace version 9 is newer", err)

    # damage

    def test_any_cut_and_flip_is_survived(self):
        whole = bytearray(t.sample())
        parts = ["--" + name for name in ("peak", "leaks", "sizes", "lifetimes", "objects", "threads", "growth", "oom")]
        for at in range(t.HEADER, len(whole), 977):
            whole[at] ^= 0x55
            self.write("x.trace", bytes(whole[:len(whole) - at % 300]))
            self.assertEqual(self.run_tool("report", *parts, "x.trace")[::2], (0, ""))

    # size

    def test_memory_is_bounded_by_blocks_not_events(self):
        subprocess.run([MANY_EVENTS, self.path("m.trace"), "600000", "1000"], check=True)
        code = ("import resource,subprocess,sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run([sys.executable, "-c", code, self.GPUMEM, "report", "--growth", "--threads", "--lifetimes",
                               self.path("m.trace")], capture_output=True, text=True, check=True)
        self.assertGreater(os.path.getsize(self.path("m.trace")), 36 << 20)
        self.assertLess(int(done.stdout), 24 << 10)


if __name__ == "__main__":
    unittest.main()
