"""gpumem diff: totals, call sites matched by place and not by number, and the verdict."""
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
HAVE_JSON = sys.argv.pop(1) == "true"
M = 1 << 20


def trace(base, sites, events):
    """`sites` gives each number an offset in the module, which is loaded at `base`."""
    records = t.module(base, base, base + 0x10000, "/opt/none/app")
    for number, offset in sites.items():
        records += t.site(number, [base + offset])
    return t.header() + t.chunk(records, kind=2) + t.chunk(b"".join(events))


class Diff(ToolCase):
    def setUp(self):
        super().setUp()
        self.write("a", trace(0x10000, {1: 0x100, 2: 0x200}, [
            t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 4 * M, site=1), t.event(2, 2, "alloc", "cuMemAlloc", 0x2000, M, site=2),
            t.event(3, 3, "free", "cuMemFree", 0x2000, M), t.event(4, 4, "free", "cuMemFree", 0x1000, 4 * M)]))
        # another load address and other numbers for the same places; one block more, leaked, and one of another kind
        self.write("b", trace(0x70000, {1: 0x200, 9: 0x100}, [
            t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 4 * M, site=9), t.event(2, 2, "alloc", "cuMemAlloc", 0x2000, M, site=1),
            t.event(3, 3, "alloc", "cuMemAlloc", 0x3000, 2 * M, site=9),
            t.event(4, 4, "alloc", "cuMemAlloc", 0x4000, M, site=1, kind="managed"),
            t.event(5, 5, "free", "cuMemFree", 0x2000, M), t.event(6, 6, "free", "cuMemFree", 0x1000, 4 * M),
            t.event(7, 7, "free", "cuMemFree", 0x4000, M, kind="managed")]))

    def test_places_match_whatever_their_numbers(self):
        out = self.good("diff", "a", "b")
        rows = [re.split(r" {2,}", line.strip()) for line in out.split("BY CALL SITE")[1].splitlines()[2:] if line]
        self.assertEqual([(r[0], r[1], r[2], r[3], r[5], r[6]) for r in rows],
                         [("+2.00 MiB", "+2.00 MiB", "+1", "+2.00 MiB", "native", "app+0x100"),
                          ("+1.00 MiB", "+1.00 MiB", "+1", ".", "managed", "app+0x200")])
        self.assertRegex(out, r"  peak live +5\.00 MiB +8\.00 MiB +\+3\.00 MiB\n")
        self.assertRegex(out, r"  leaked memory +0 B +2\.00 MiB +\+2\.00 MiB\n")
        self.assertRegex(out, r"  allocated memory +5\.00 MiB +8\.00 MiB +\+3\.00 MiB\n")
        self.assertNotIn("_", out)

    def rows_of(self, a, b):
        """Rows of the list when the places of trace A lie at `a` and those of B at `b`; place k allocates k MiB."""
        for name, base, offsets in (("x", 0x10000, a), ("y", 0x30000, b)):
            self.write(name, trace(base, dict(enumerate(offsets, 1)), [
                t.event(k, k, "alloc", "cuMemAlloc", 0x1000 * k, k * M, site=k) for k in range(1, len(offsets) + 1)]))
        rows = [re.split(r" {2,}", line.strip()) for line in self.good("diff", "x", "y").split("BY CALL SITE")[1].splitlines()[2:] if line]
        return [] if rows == [["none"]] else [(row[0], row[-1]) for row in rows]

    def test_places_that_moved(self):
        """Another build has other offsets: equally many places match in their order."""
        self.assertEqual(self.rows_of([0x100, 0x200, 0x300], [0x180, 0x200, 0x380]), [])
        self.assertEqual(self.rows_of([0x100, 0x200], [0x200, 0x300]), [])

    def test_places_that_came(self):
        """Places that are all still there match by position, and otherwise the function is one row."""
        self.assertEqual(self.rows_of([0x100, 0x200], [0x100, 0x200, 0x300]), [("+3.00 MiB", "app+0x300")])
        self.assertEqual(self.rows_of([0x100, 0x200], [0x110, 0x210, 0x310]), [("+3.00 MiB", "app")])

    def test_unequal_depths(self):
        """Only as many frames as both traces have count."""
        for name, frames in (("x", [0x10100, 0x10200]), ("y", [0x10100, 0x10200, 0x10300])):
            self.write(name, t.header() + t.chunk(t.module(0x10000, 0x10000, 0x20000, "/opt/none/libtorch.so") + t.site(1, frames), kind=2) +
                       t.chunk(t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, M, site=1)))
        for a, b, short, long in (("x", "y", "A", "B"), ("y", "x", "B", "A")):
            out = self.good("diff", a, b)
            self.assertEqual(out.count(f"  the call sites of {short} have at most 2 stack frames: further frames of {long} are ignored\n"), 1)
            self.assertTrue(out.endswith("\n  none\n"), out)
        self.assertNotIn("ignored", self.good("diff", "x", "x"))

    def test_the_other_way_is_less(self):
        self.assertRegex(self.good("diff", "b", "a"), r"\n +-2\.00 MiB +-2\.00 MiB +-1 +-2\.00 MiB .* app\+0x100\n")

    def test_a_peak_is_what_lives_at_once(self):
        """The same three blocks of a call site, one after the other and together: only the peak differs."""
        for name, alive in (("x", 1), ("y", 3)):
            events = [(time, "alloc", 0x1000 * k) for k, time in enumerate((1, 3, 5) if alive == 1 else (1, 2, 3), 1)]
            events += [(time, "free", 0x1000 * k) for k, time in enumerate((2, 4, 6) if alive == 1 else (4, 5, 6), 1)]
            self.write(name, trace(0x10000, {1: 0x100}, [
                t.event(time, time, what, "cuMemAlloc" if what == "alloc" else "cuMemFree", address, M, site=1 if what == "alloc" else 0)
                for time, what, address in sorted(events)]))
        rows = [re.split(r" {2,}", line.strip()) for line in self.good("diff", "x", "y").split("BY CALL SITE")[1].splitlines()[2:] if line]
        self.assertEqual([(row[:4], row[-1]) for row in rows], [(["+2.00 MiB", ".", ".", "."], "app+0x100")])

    def test_same(self):
        self.assertIn("\n  none\n", self.good("diff", "a", "a"))

    @unittest.skipUnless(HAVE_JSON, "built without jansson")
    def test_json(self):
        diff = json.loads(self.good("diff", "--json", "a", "b"))["diff"]
        row = [r for r in diff["sites"] if r["site"]["offset"] == 0x100][0]
        self.assertEqual((row["a_peak_bytes"], row["b_peak_bytes"], row["a_leaked_blocks"], row["b_leaked_blocks"]),
                         (4 * M, 6 * M, 0, 1))
        totals = {r["what"]: (r["a"], r["b"]) for r in diff["totals"]}
        self.assertEqual((totals["allocations"], totals["peak_live_bytes"]), ((2, 4), (5 * M, 8 * M)))

    def test_verdict(self):
        status, _, err = self.run_tool("diff", "--worse=100", "a", "b")
        self.assertEqual((status, err), (3, "gpumem: leaked memory grew by 2.00 MiB, from 0 B to 2.00 MiB, more than 100 %\n"))
        status, _, err = self.run_tool("diff", "--worse=50", "a", "b")
        self.assertEqual((status, err.count("\n")), (3, 4))
        self.assertEqual(self.run_tool("diff", "--worse=0", "b", "a")[0], 0)
        self.assertEqual(self.run_tool("diff", "--worse=0", "a", "a")[0], 0)
        self.write("lost", t.header(dropped=5))
        status, _, err = self.run_tool("diff", "--worse=0", "a", "lost")
        self.assertEqual((status, "lost: 0 damaged" in err), (4, True), err)

    def test_usage_and_bad_files(self):
        for arguments, status, words in ((["a"], 2, "two traces"), (["--worse=x", "a", "b"], 2, "--worse 'x' is not a number"),
                                         (["a", "none"], 1, "none: No such file"), (["--bogus", "a", "b"], 2, "unknown option")):
            got, out, err = self.run_tool("diff", *arguments)
            self.assertEqual((got, out, err.count("\n")), (status, "", 1))
            self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main()
