"""gpumem report names the user's function and line, whatever of the CUDA runtime stands between it and the driver."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t

GPUMEM, INLINED, PLAIN, STRIPPED, SOURCE = map(os.path.abspath, sys.argv[1:6])
HAVE_DW, HAVE_JSON = (word == "true" for word in sys.argv[6:8])
del sys.argv[1:8]


def marked_lines():
    with open(SOURCE) as f:
        return {m.group(1): n for n, text in enumerate(f, 1) if (m := re.search(r"/\* in (\w+) \*/", text))}


class Symbols(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "x.trace")

    def write_trace(self, program):
        """A trace with one leaked block for each call of the program, its frames as the program found them."""
        frames = [[int(word, 0) for word in line.split()]
                  for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()]
        base = frames[0][1]
        records = t.module(base, base, base + 0x100000, program)
        events = b""
        for number, _, *addresses in frames:
            records += t.site(number, [a for a in addresses if base <= a < base + 0x100000])
            events += t.event(number, number, "alloc", "cuMemAlloc", 4096 * number, 100 * number, site=number)
        with open(self.path, "wb") as f:
            f.write(t.header() + t.chunk(records, kind=2) + t.chunk(events))
        return frames

    def report(self, *options):
        return subprocess.run([GPUMEM, "report", *options, self.path], capture_output=True, text=True, check=True,
                              timeout=60).stdout

    def leaks(self):
        return re.findall(r"([0-9]+) B in 1 block  (.*)", self.report())

    def expected(self, program):
        lines, name = marked_lines(), os.path.basename(program)
        return {(str(100 * n), "%s at program.c:%d (%s)" % (function, lines[function], name))
                for n, function in ((1, "load_frame"), (2, "inlined_helper"), (3, "main"))}

    @unittest.skipUnless(HAVE_DW, "built without libdw")
    def test_places_in_optimised_and_plain_programs(self):
        for program in (INLINED, PLAIN):
            self.write_trace(program)
            self.assertEqual(set(self.leaks()) - self.expected(program), set())
            self.assertEqual(len(self.leaks()), 3)

    @unittest.skipUnless(HAVE_DW, "built without libdw")
    def test_callers(self):
        self.write_trace(PLAIN)
        self.assertRegex(self.report("--stacks"), r"load_frame at program.c:\d+ \(\S+\)\n +from main at program.c:\d+")
        self.assertRegex(self.report("--stacks"), r"inlined_helper at program.c:\d+ \(\S+\)\n +from main at program.c:\d+")
        self.assertNotRegex(self.report(), r"\n +from ")

    def test_stripped_with_the_runtime_linked_in(self):
        """Nothing tells the runtime's frames but that all calls go through them."""
        frames = self.write_trace(STRIPPED)
        base, name = frames[0][1], os.path.basename(STRIPPED)
        first_apart = next(i for i in range(2, 9) if len({f[i] for f in frames}) > 1)
        self.assertGreater(first_apart, 2)
        self.assertEqual({text for _, text in self.leaks()}, {"%s+%#x" % (name, f[first_apart] - base) for f in frames})

    def test_stripped_with_a_shared_runtime(self):
        records = (t.module(0x10000, 0x10000, 0x20000, "/opt/none/app") +
                   t.module(0x50000, 0x50000, 0x60000, "/opt/none/libcudart.so.13"))
        records += t.site(1, [0x50010, 0x10100, 0x10200], outside=1) + t.site(2, [0x50010, 0x10150, 0x10200])
        with open(self.path, "wb") as f:
            f.write(t.header() + t.chunk(records, kind=2) + t.chunk(
                t.event(1, 1, "alloc", "cuMemAlloc", 4096, 10, site=1) + t.event(2, 2, "alloc", "cuMemAlloc", 8192, 20, site=2)))
        self.assertEqual(self.leaks(), [("20", "app+0x150"), ("10", "app+0x100")])

    def test_same_place_from_two_callers_is_one_row(self):
        module = t.module(0x10000, 0x10000, 0x20000, "/opt/none/app")
        module += t.module(0x50000, 0x50000, 0x60000, "/opt/none/libcudart.so.13")
        records = module + t.site(1, [0x50010, 0x10100, 0x10200], outside=1) + t.site(2, [0x50010, 0x10100, 0x10300], outside=1)
        with open(self.path, "wb") as f:
            f.write(t.header() + t.chunk(records, kind=2) + t.chunk(
                t.event(1, 1, "alloc", "cuMemAlloc", 4096, 10, site=1) + t.event(2, 2, "alloc", "cuMemAlloc", 8192, 20, site=2)))
        self.assertIn("30 B in 2 blocks  app+0x100\n", self.report())
        self.assertIn("20 B in 1 block  app+0x100\n                  from app+0x300\n", self.report("--stacks"))

    @unittest.skipUnless(HAVE_JSON, "built without jansson")
    def test_json(self):
        with open(self.path, "wb") as f:
            f.write(t.sample())
        trace, = json.loads(self.report("--json", "--stacks"))["traces"]
        self.assertEqual((trace["file"], trace["process"]["pid"], trace["process"]["rank"]), (self.path, 4242, None))
        self.assertEqual((trace["totals"]["allocations"], trace["totals"]["leaked_blocks"]), (6, 3))
        self.assertEqual([(f["result_name"], f["bytes"], f["call"]) for f in trace["failures"]],
                         [("CUDA_ERROR_OUT_OF_MEMORY", 1 << 40, "cuMemAlloc")])
        site = next(s for s in trace["sites"] if s["text"] == "app+0x456")
        self.assertEqual((site["module"], site["offset"], site["function"], site["line"]), ("/opt/none/app", 0x456, None, None))
        self.assertEqual([c["text"] for c in site["callers"]], ["app+0x789"])
        self.assertEqual(sum(s["allocations"] for s in trace["sites"]), 6)
        calls = {c["call"]: c for c in trace["by_call"]}
        self.assertEqual((calls["cuMemFree"]["allocated_bytes"], calls["cuMemFree"]["calls"]), (0, 3))

    @unittest.skipIf(HAVE_JSON, "built with jansson")
    def test_no_json(self):
        done = subprocess.run([GPUMEM, "report", "--json", self.path], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "gpumem: report: this gpumem was built without jansson and has no --json\n"))


if __name__ == "__main__":
    unittest.main()
