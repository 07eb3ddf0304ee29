"""Phases in traces: what gpumem report --phases and --peak make of marks, nested and overlapping ranges."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
M = 1 << 20
STARTED = 1 << 32
NAMES = ["outer", "inner", "bytes \udcff\x1b[31m\n", "outer", "load"]  # two numbers for one text
RECORDS = b"".join(t.string(number, name.encode(errors="surrogateescape")) for number, name in enumerate(NAMES, 1))


class Phases(ToolCase):
    def setUp(self):
        super().setUp()
        self.seq, self.threads = 0, {}

    def event(self, thread, action, address=0, size=0, call="none", text=0, kind="native", device=0):
        self.seq += 1
        row = t.event(self.seq, 1000 * self.seq, action, call, address, size, kind=kind, site=text, duration=0, device=device)
        self.threads.setdefault(thread, []).append(row)

    def begin(self, text, thread=1, address=0):
        self.event(thread, "phase_begin", address, text=text)

    def end(self, thread=1, address=0):
        self.event(thread, "phase_end", address)

    def alloc(self, address, size, thread=1, kind="native", device=0):
        self.event(thread, "alloc", address, size, "cuMemAlloc", kind=kind, device=device)

    def free(self, address, size, thread=1):
        self.event(thread, "free", address, size, "cuMemFree")

    def save(self):
        return self.write("x.trace", t.header() + t.chunk(RECORDS, kind=2) +
                          b"".join(t.chunk(b"".join(rows), thread=thread) for thread, rows in self.threads.items()))

    def sections(self):
        return json.loads(self.good("report", "--json", "--phases", "--peak", self.save()))["traces"][0]

    def rows(self):
        """(name, kind, times, allocations, bytes, frees, peak, ns)."""
        return [tuple(row[key] for key in ("name", "kind", "entered", "allocations", "allocated_bytes", "frees", "peak_bytes", "time_ns"))
                for row in self.sections()["phases"]["rows"]]

    def test_the_peak_is_that_of_one_device(self):
        self.begin(1)
        self.alloc(0x1000, 3 * M)
        self.alloc(0x2000, 5 * M, device=1)
        self.alloc(0x3000, M)
        self.end()
        row, = self.sections()["phases"]["rows"]
        self.assertEqual((row["peak_bytes"], row["device"]), (5 * M, 1))
        self.assertRegex(self.good("report", "--phases", "--sizes", "x.trace"), r"5\.00 MiB +1 +3 ")

    def test_nested(self):
        self.begin(1)
        self.alloc(0x1000, M)
        self.begin(2)
        self.alloc(0x2000, 2 * M)
        self.free(0x1000, M)
        self.end()
        self.alloc(0x3000, 4 * M)
        self.end()
        self.alloc(0x4000, 8 * M)
        self.assertEqual(self.rows(), [("outer", "nested", 1, 3, 7 * M, 1, 6 * M, 7000), ("inner", "nested", 1, 1, 2 * M, 1, 3 * M, 3000)])

    def test_threads_and_overlap(self):
        self.begin(1, thread=1)
        self.begin(2, thread=2)
        self.begin(5, thread=2, address=STARTED + 7)
        self.alloc(0x1000, M, thread=1)
        self.alloc(0x2000, 2 * M, thread=2)
        self.end(thread=1, address=STARTED + 7)  # by another thread
        self.alloc(0x3000, 4 * M, thread=2)
        self.end(thread=1)
        self.end(thread=2)
        self.assertEqual(self.rows(), [("inner", "nested", 1, 2, 6 * M, 0, 7 * M, 7000), ("outer", "nested", 1, 1, M, 0, 7 * M, 7000),
                                       ("load", "overlap", 1, 2, 3 * M, 0, 3 * M, 3000)])

    def test_domains_have_stacks_of_their_own(self):
        self.begin(1, address=0)
        self.begin(2, address=3)
        self.end(address=0)
        self.alloc(0x1000, M)
        self.end(address=3)
        self.assertEqual(self.rows(), [("inner", "nested", 1, 1, M, 0, M, 2000 + 1000), ("outer", "nested", 1, 0, 0, 0, 0, 2000)])

    def test_unbalanced(self):
        self.end()
        self.end(address=STARTED + 1)
        self.begin(1)
        self.begin(2)
        self.alloc(0x1000, M)
        self.assertEqual([row[:4] for row in self.rows()], [("inner", "nested", 1, 1), ("outer", "nested", 1, 1)])

    def test_same_name(self):
        """A phase inside itself counts once, and two numbers of one text are one row."""
        self.begin(1)
        self.begin(1)
        self.alloc(0x1000, M)
        self.end()
        self.end()
        self.begin(4)
        self.alloc(0x2000, M)
        self.end()
        self.assertEqual([row[:6] for row in self.rows()], [("outer", "nested", 3, 2, 2 * M, 0)])

    def test_marks(self):
        self.event(1, "mark", text=5)
        self.alloc(0x1000, M, thread=2)
        self.event(3, "mark", text=2)
        self.alloc(0x2000, M)
        self.assertEqual([row[:5] for row in self.rows()], [("inner", "mark", 1, 1, M), ("load", "mark", 1, 1, M)])

    def test_host_memory_is_no_peak(self):
        self.begin(1)
        self.alloc(0x1000, M, kind="host")
        self.end()
        self.assertEqual([row[3:7] for row in self.rows()], [(1, M, 0, 0)])

    def test_phase_of_the_peak(self):
        self.begin(1)
        self.begin(2, thread=2)
        self.begin(5, thread=2, address=STARTED)
        self.alloc(0x1000, 4 * M, thread=1)
        self.end(thread=1)
        self.free(0x1000, 4 * M)
        self.alloc(0x2000, M, thread=2)
        self.assertEqual(self.sections()["peak"]["phase"], "outer > load")

    def test_none(self):
        self.alloc(0x1000, M)
        found = self.sections()
        self.assertEqual((found["phases"]["rows"], "phase" in found["peak"]), ([], False))
        self.assertIn("  none\n", self.good("report", "--phases", "x.trace"))

    def test_terminals_are_safe(self):
        self.begin(3)
        self.alloc(0x1000, M)
        for section in ("--phases", "--peak"):
            out = subprocess.run([self.GPUMEM, "report", section, self.save()], cwd=self.folder.name, check=True, capture_output=True).stdout
            self.assertIn(b"bytes \\xff\\x1b[31m\\x0a\n", out)

    def test_csv_says_the_same(self):
        self.begin(1)
        self.alloc(0x1000, M)
        self.end()
        expected = self.rows()
        self.good("export", "--to=csv", "-o", "x.csv", "x.trace")
        found = json.loads(self.good("report", "--json", "--phases", "x.csv"))["traces"][0]["phases"]["rows"]
        self.assertEqual([(row["name"], row["allocations"]) for row in found], [(row[0], row[3]) for row in expected])

    def test_many(self):
        """More rows than the table begins with, and deep nesting."""
        records = b"".join(t.string(number, b"phase %d" % number) for number in range(1, 1001))
        for number in range(1, 1001):
            self.begin(number)
        self.alloc(0x1000, M)
        self.write("x.trace", t.header() + t.chunk(records, kind=2) + t.chunk(b"".join(self.threads[1])))
        rows = json.loads(self.good("report", "--json", "--phases", "x.trace"))["traces"][0]["phases"]["rows"]
        self.assertEqual({(row["allocations"], row["peak_bytes"]) for row in rows}, {(1, M)})
        self.assertEqual(len(rows), 1000)


if __name__ == "__main__":
    unittest.main()
