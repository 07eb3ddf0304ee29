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

GPUMEM, INLINED, PLAIN, STRIPPED, NAMED, SOURCE = map(os.path.abspath, sys.argv[1:7])
HAVE_DW, HAVE_JSON = (word == "true" for word in sys.argv[7:9])
del sys.argv[1:9]


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
        return self.write_frames(program, self.frames_of(program))

    def frames_of(self, program):
        frames = [[int(word, 0) for word in line.split()]
                  for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()]
        return frames

    def write_frames(self, program, frames):
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

    def sites(self, *options):
        sites = json.loads(self.report("--json", "--stacks", *options))["traces"][0]["sites"]
        return {site["allocated_bytes"]: site for site in sites}

    @unittest.skipUnless(HAVE_DW and HAVE_JSON, "built without libdw or jansson")
    def test_a_long_name_loses_its_arguments_not_its_end(self):
        self.write_trace(NAMED)
        self.assertEqual(self.sites()[100]["function"], "made::wrap_kernel_functor_unboxed_::call")
        self.assertRegex(self.report(), r"100 B in 1 block  made::wrap_kernel_functor_unboxed_::call \(places-named\+0x[0-9a-f]+\)\n")

    @unittest.skipUnless(HAVE_DW and HAVE_JSON, "built without libdw or jansson")
    def test_wrappers_are_counted(self):
        """The title is the call site. Where all frames are wrappers, it is the outermost one that does more than dispatch."""
        frames = self.frames_of(NAMED)
        self.write_frames(NAMED, frames)
        title = r"  main \(places-named\+0x[0-9a-f]+\)\n +through 2 frames of wrappers\n"
        self.assertRegex(self.report("--stacks"), "200 B in 1 block" + title)
        self.assertRegex(self.report("--leaks", "--stacks"), "program   " + title)
        self.assertNotIn("wrappers", self.report())
        self.assertEqual([frame["function"] for frame in self.sites()[200]["wrappers"]], ["at::native::empty(int)", "c10::Dispatcher::call(int)"])
        self.write_frames(NAMED, [frames[1][:5]])
        self.assertEqual(self.sites()[200]["function"], "at::native::empty(int)")
        self.assertEqual(([f["function"] for f in self.sites()[200]["wrappers"]], [f["function"] for f in self.sites()[200]["callers"]]),
                         ([], ["c10::Dispatcher::call(int)"]))

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
