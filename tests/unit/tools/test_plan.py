"""gpumem plan on small traces: what lives how long, what fits, and what is said of wrong calls."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t

GPUMEM = os.path.abspath(sys.argv.pop(1))
M = 1 << 20
MS = 1000000
RECORDS = (t.device(0, 4096 * M, "Test GPU") + t.module(0x10000, 0x10000, 0x20000, "/opt/app") +
           t.module(0x50000, 0x50000, 0x60000, "/lib/libc.so.6") + t.site(1, [0x10123, 0x10456, 0x50001]) +
           t.site(2, [0x10200, 0x10456]) + t.site(3, [0x10123, 0x10456]))


def trace(events, records=RECORDS, thread=100):
    return t.header() + t.chunk(records, kind=2) + t.chunk(b"".join(events), thread=thread)


def life():
    """Objects: 1 lives 1 ms, 2 a second, 3 fails, 4 to the end, 5 100 ms; between them a pinned block, which is none."""
    return [t.event(1, 0, "alloc", "cuMemAlloc", 0x1000, 10 * M, site=1),
            t.event(2, 500, "alloc", "cuMemHostAlloc", 0x9000, 512, kind="host", site=1),
            t.event(3, 1000, "alloc", "cuMemAllocAsync", 0x2000, 20 * M, site=2),
            t.event(4, MS, "free", "cuMemFree", 0x1000, 10 * M),
            t.event(5, 2 * MS, "alloc_fail", "cuMemAlloc", 0, 1 << 40, site=2, result=2),
            t.event(6, 3 * MS, "alloc", "cuMemAlloc", 0x3000, 30 * M, site=3),
            t.event(7, 4 * MS, "alloc", "cuMemAlloc", 0x1000, 40 * M),
            t.event(8, 104 * MS, "free", "cuMemFree", 0x1000, 40 * M),
            t.event(9, 1000 * MS + 1000, "free", "cuMemFree", 0x2000, 20 * M)]


class Plan(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def plan(self, data, *options):
        with open(os.path.join(self.folder.name, "x.trace"), "wb") as f:
            f.write(data)
        done = subprocess.run([GPUMEM, "plan", *options], cwd=self.folder.name, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def decisions(self, *options, data=None):
        status, out, err = self.plan(data or trace(life()), "-o", "-", *options, "x.trace")
        self.assertEqual(status, 0, err)
        return [line.split() for line in out.splitlines() if line[0].isdigit()], err

    def test_plan(self):
        status, out, err = self.plan(trace(life()), "--lifetime", "0.5", "-o", "-", "x.trace")
        self.assertEqual(status, 0)
        self.assertEqual(out.splitlines(), [
            "gpumem-plan 1", "# from x.trace; objects that live less than 500 ms are async", "# id decision size site",
            "site 1 app+0x123<app+0x456", "site 2 app+0x200<app+0x456",
            f"1 async {10 * M} 1", f"2 managed {20 * M} 2", f"3 managed {1 << 40} 2", f"4 managed {30 * M} 1", f"5 async {40 * M} -"])
        self.assertIn("objects 5, lifetime N 500 ms\n  async    2, peak 40.00 MiB\n  managed  3, peak 50.00 MiB\n", err)

    def test_thresholds(self):
        """Below N, not at it; what never ends is managed whatever N."""
        for lifetime, asynchronous in (("0", []), ("1ms", []), ("1001us", ["1"]), ("100ms", ["1"]), ("0.11s", ["1", "5"]),
                                       ("1", ["1", "5"]), ("1.1", ["1", "2", "5"]), ("1e6", ["1", "2", "5"])):
            rows, _ = self.decisions("--lifetime", lifetime)
            self.assertEqual([row[0] for row in rows if row[1] == "async"], asynchronous, lifetime)

    def test_fit(self):
        """The peak of 1, 5 and 2 is 60 MiB, of 1 and 5 40 MiB, of 1 10 MiB."""
        for fit, asynchronous in (("60M", ["1", "2", "5"]), ("59M", ["1", "5"]), ("39M", ["1"])):
            rows, err = self.decisions("--fit", fit)
            self.assertEqual([row[0] for row in rows if row[1] == "async"], asynchronous, fit)
            self.assertIn("<- chosen", err)
        # The steps end above the length of the run, a second and a little: all larger ones decide the same.
        self.assertEqual(re.findall(r"^(\S+ \S+) .* does not fit$", err, re.MULTILINE), ["125 ms", "250 ms", "500 ms", "1.00 s", "2.00 s"])
        # The one that is chosen is always there.
        self.assertRegex(self.decisions("--fit", "4G")[1], r"\n2\.00 s .*\n512\.00 s .*  <- chosen\n")

    def test_card(self):
        """Without --fit the card less the headroom."""
        rows, _ = self.decisions()
        self.assertEqual([row[1] for row in rows], ["async", "async", "managed", "managed", "async"])
        rows, _ = self.decisions("--headroom", "4070M")
        self.assertEqual([row[0] for row in rows if row[1] == "async"], ["1"])
        status, _, err = self.plan(trace(life(), RECORDS[len(t.device(0, 0, "Test GPU")):]), "-o", "p", "x.trace")
        self.assertEqual((status, err),
                         (1, "gpumem: the trace does not have the device's memory; give --fit BYTES or --lifetime N\n"))

    def test_beyond(self):
        """Not even the smallest N fits: what is born beyond is marked."""
        events = [t.event(i, i, "alloc", "cuMemAlloc", 0x1000 * i, M) for i in range(1, 5)]
        events += [t.event(4 + i, 10 + i, "free", "cuMemFree", 0x1000 * i, M) for i in range(1, 5)]
        rows, err = self.decisions("--fit", "2M", data=trace(events))
        self.assertEqual([" ".join(row[4:]) for row in rows], ["", "", "# beyond what fits", "# beyond what fits"])
        self.assertIn("2 async objects do not fit when they are created; the plan marks them", err)

    def test_captured(self):
        """What a graph captured nothing moves."""
        captured = bytearray(t.event(1, 0, "alloc", "cuMemAllocAsync", 0x1000, M))
        captured[-1] = 1
        rows, _ = self.decisions("--lifetime", "1", data=trace([bytes(captured)]))
        self.assertEqual([row[1] for row in rows], ["native"])

    def test_without_context(self):
        """The runtime repeats what it asked before there was a context: no object."""
        events = [t.event(1, 0, "alloc_fail", "cuMemAlloc", 0, M, context=0, result=201), t.event(2, 1, "alloc", "cuMemAlloc", 0x1000, M)]
        self.assertEqual(len(self.decisions("--lifetime", "1", data=trace(events))[0]), 1)

    def test_rules(self):
        events = []
        for i in range(20):
            at = 10 * i * MS
            events += [t.event(4 * i + 1, at, "alloc", "cuMemAlloc", 0x1000, M, site=1),
                       t.event(4 * i + 2, at + 1, "free", "cuMemFree", 0x1000, M),
                       t.event(4 * i + 3, at + 2, "alloc", "cuMemAlloc", 0x2000 + 0x1000 * i, M, site=2)]
            if i % 2:
                events[-1] = t.event(4 * i + 3, at + 2, "alloc", "cuMemAlloc", 0x2000 + 0x1000 * i, 2 * M, site=2)
                events.append(t.event(4 * i + 4, at + 3, "free", "cuMemFree", 0x2000 + 0x1000 * i, 2 * M))
        status, out, err = self.plan(trace(events), "--lifetime", "1ms", "--as-rules", "-o", "-", "x.trace")
        self.assertEqual(status, 0)
        lines = [line.split(" #")[0] for line in out.splitlines() if line[0] != "#"]
        self.assertEqual(lines, [f"site=app+0x200,size={M}..{M}->managed", f"site=app+0x200,size={2 * M}..{2 * M}->async", "*->async"])
        self.assertIn("rules 3, which decide 100.0 % of the objects as the plan does", err)

    def test_compare(self):
        """A size that comes and goes: the list says short-lived from its L-th allocation on."""
        events = []
        for i in range(100):
            events += [t.event(2 * i + 1, 10 * i, "alloc", "cuMemAlloc", 0x1000, M), t.event(2 * i + 2, 10 * i + 1, "free", "cuMemFree", 0x1000, M)]
        status, out, _ = self.plan(trace(events), "--lifetime", "1", "--compare", "x.trace")
        self.assertEqual(status, 0)
        rows = {tuple(line.split()[:2]): line.split()[2:] for line in out.splitlines() if line[:5].strip().isdigit()}
        self.assertEqual(rows["3", "1"], ["98.0", "%", "98.0", "%"])
        self.assertEqual(rows["10", "5"], ["91.0", "%", "91.0", "%"])
        self.assertEqual(rows["40", "20"], ["61.0", "%", "61.0", "%"])

    def test_wrong_calls(self):
        def refused(line, *options, data=None, status=2):
            done = self.plan(data or trace(life()), *options)
            self.assertEqual((done[0], done[2]), (status, "gpumem: " + line + "\n"))
        refused("plan: --lifetime and --fit exclude each other", "--lifetime", "1", "--fit", "1G", "-o", "p", "x.trace")
        refused("plan: --lifetime 'long' is not a time; accepted: seconds such as 0.5, or 500ms, 20us, 2min", "--lifetime", "long")
        refused("plan: --fit 0: nothing fits", "--fit", "0")
        refused("plan: one trace is needed; usage: gpumem plan [option ...] -o PLAN TRACE", "-o", "p")
        refused("plan: no output given; usage: gpumem plan [option ...] -o PLAN TRACE", "x.trace")
        refused("cannot write 'no/p': No such file or directory", "--lifetime", "1", "-o", "no/p", "x.trace", status=1)
        refused("plan: 'x.trace' is the trace itself; give another output", "--lifetime", "1", "-o", "x.trace", "x.trace")
        with open(os.path.join(self.folder.name, "x.trace"), "rb") as f:
            self.assertEqual(f.read(), trace(life()))
        refused("x.trace: no allocation that a policy may move", "--lifetime", "1", "-o", "p", "x.trace", status=1,
                data=trace([t.event(1, 1, "alloc", "cuMemHostAlloc", 0x6000, 512, kind="host")]))


if __name__ == "__main__":
    unittest.main()
