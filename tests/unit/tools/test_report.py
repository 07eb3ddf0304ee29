"""gpumem report on small traces: golden text, and one exact line for each kind of unusable file."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t

GPUMEM = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def report(self, data, name="x.trace", *options):
        path = os.path.join(self.folder.name, name)
        if data is not None:
            with open(path, "wb") as f:
                f.write(data)
        done = subprocess.run([GPUMEM, "report", *options, name], cwd=self.folder.name, capture_output=True, text=True,
                              timeout=60)
        return done.returncode, done.stdout, done.stderr

    def refused(self, data, line):
        self.assertEqual(self.report(data), (1, "", "gpumem: x.trace: " + line + "\n"))

    def test_golden(self):
        status, out, err = self.report(t.sample())
        self.assertEqual((status, err), (0, ""))
        golden = os.path.join(HERE, "report.golden")
        if os.environ.get("GPUMEM_REGENERATE"):
            with open(golden, "w") as f:
                f.write(out)
        with open(golden) as f:
            self.assertEqual(out, f.read())

    def test_totals(self):
        out = self.report(t.sample())[1]
        for line in ("allocations       6 (18.00 MiB)", "frees             2", "temporary         2 (33.3 %",
                     "peak live         16.00 MiB at 10 ms", "peak reserved     17.00 MiB at 10 ms",
                     "leaked: 4.00 MiB in 2 blocks", "of toolkit libraries: 1.00 MiB in 1 block",
                     "with its context  3.00 MiB in 1 block", "unknown frees     1 ", "failed            1 allocations",
                     "2 CUDA_ERROR_OUT_OF_MEMORY\n                        cuMemAlloc, app+0x456\n"):
            self.assertIn(line, out)

    def two_devices(self):
        """Device 0 peaks at 6 MiB before device 1 does at 7 MiB; the same call sites use both."""
        M = 1 << 20
        events = [t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000000, 2 * M, site=1), t.event(2, 2000, "alloc", "cuMemAlloc", 0x2000000, 4 * M, site=2),
                  t.event(3, 3000, "free", "cuMemFree", 0x2000000, 4 * M), t.event(4, 4000, "alloc", "cuMemAlloc", 0x10000000, M, site=1, device=1),
                  t.event(5, 5000, "alloc", "cuMemAlloc", 0x20000000, 6 * M, site=2, device=1, slack=M),
                  t.event(6, 6000, "alloc_fail", "cuMemAlloc", 0, 4 * M, site=2, device=1, result=2),
                  t.event(7, 7000, "free", "cuMemFree", 0x20000000, 6 * M, device=1)]
        records = (t.device(0, 64 * M, "Card") + t.device(1, 8 * M, "Card") + t.module(0x10000, 0x10000, 0x20000, "/opt/none/app") +
                   t.site(1, [0x10100]) + t.site(2, [0x10200]))
        return t.header() + t.chunk(records, kind=2) + t.chunk(b"".join(events))

    def test_devices_are_apart(self):
        status, out, err = self.report(self.two_devices())
        self.assertEqual((status, err), (0, ""))
        self.assertNotIn("\n  peak live", out)
        for pattern in (r"device 0 +2 +1 +6\.00 MiB +2\.1 us +6\.00 MiB +- +2\.00 MiB\n", r"device 1 +2 +1 +7\.00 MiB +5\.1 us +8\.00 MiB +- +1\.00 MiB\n",
                        r"HELD AT THE PEAK OF DEVICE 0: 6\.00 MiB at 2\.1 us\n +4\.00 MiB +66\.7 %  app\+0x200\n +2\.00 MiB +33\.3 %  app\+0x100\n",
                        r"HELD AT THE PEAK OF DEVICE 1: 7\.00 MiB at 5\.1 us\n +6\.00 MiB +85\.7 %  app\+0x200\n +1\.00 MiB +14\.3 %  app\+0x100\n",
                        r"2\.00 MiB in 1 block on device 0  app\+0x100\n", r"7\.00 MiB  2 CUDA_ERROR_OUT_OF_MEMORY\n +cuMemAlloc, device 1, app",
                        r" +6\.00 MiB +1 +1 +1  app\+0x200\n", r"  device 1\n  native +2 +7\.00 MiB +1 +1\.00 MiB +7\.00 MiB +7\.00 MiB\n"):
            self.assertRegex(out, pattern)

    def test_parts_of_single_devices(self):
        out = self.report(self.two_devices(), "x.trace", "--peak", "--oom", "--reserved", "--leaks", "--kinds")[1]
        for pattern in (r"WHO HELD MEMORY OF DEVICE 1 AT ITS PEAK\n  live bytes +7\.00 MiB\n  at +5\.1 us\n",
                        # what device 0 holds is neither live nor held there
                        r" 1 +6 us +4\.00 MiB +1 +7\.00 MiB +8\.00 MiB +0 B +8\.00 MiB .*this process holds too much",
                        r" 1 +6\.00 MiB  app\+0x200\n +1 +1\.00 MiB  app\+0x100\n", r"MEMORY TAKEN FROM DEVICE 1\n  peak reserved +8\.00 MiB\n"):
            self.assertRegex(out, pattern)

    def test_a_limit_is_one_of_each_device(self):
        for limit, status, err in (("7M", 0, ""), ("6M", 3, "gpumem: x.trace: device 1: peak of 7.00 MiB is above the limit of 6.00 MiB\n")):
            found = self.report(self.two_devices(), "x.trace", "--limit", limit)
            self.assertEqual((found[0], found[2]), (status, err))

    def test_processes_have_a_row_for_each_device(self):
        out = self.report(self.two_devices(), "x.trace", "--processes")[1]
        self.assertRegex(out, r" 4242 +0 +0 ns .* 6\.00 MiB +6\.00 MiB .*x\.trace\n.* 4242 +1 +0 ns .* 7\.00 MiB +8\.00 MiB .*x\.trace\n")

    def test_top(self):
        self.assertIn("and 1 more call site", self.report(
            t.header() + t.chunk(b"".join(t.event(i, i, "alloc", "cuMemAlloc", 4096 * i, 10, site=i) for i in range(1, 4))),
            "x.trace", "--top", "2")[1])

    def test_failed_free_keeps_the_block(self):
        out = self.report(t.header() + t.chunk(
            t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 10) +
            t.event(2, 2, "free_fail", "cuMemFree", 0x1000, 10, result=1)))[1]
        self.assertIn("leaked: 10 B in 1 block", out)

    def test_drops_are_no_calls_and_frees_allocate_nothing(self):
        out = self.report(t.header() + t.chunk(
            t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 10, kind="async_", reason=5) +
            t.event(2, 2, "drop", "cuMemAlloc", 0x1000, 1 << 8 | 1 << 10, kind="async_") +
            t.event(3, 3, "free", "cuMemFree", 0x1000, 10, kind="async_")))[1]
        self.assertRegex(out, r"\n  cuMemAlloc +1 +0 +10 B +- ")
        self.assertRegex(out, r"\n  cuMemFree +1 +0 +- +10 B ")
        self.assertRegex(out, r"\n  async +1 +10 B  list-steady: ")
        self.assertIn("dropped for 1 block: handles for other processes", out)
        self.assertIn("dropped for 1 block: registration with network cards", out)
        self.assertNotIn("peer devices", out)

    def test_noted_verdicts(self):
        out = self.report(t.header() + t.chunk(
            t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 10, verdict="async_") +
            t.event(2, 2, "alloc", "cuMemAlloc", 0x2000, 20, verdict="managed")))[1]
        self.assertIn("the active list would have used async for 1 allocation (10 B), as short-lived", out)
        self.assertIn("the active list would have used managed for 1 allocation (20 B), as lasting", out)

    def test_handles_and_addresses_do_not_meet(self):
        out = self.report(t.header() + t.chunk(
            t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 10) + t.event(2, 2, "alloc", "cuMemCreate", 0x1000, 20, kind="vmm") +
            t.event(3, 3, "free", "cuMemFree", 0x1000, 10)))[1]
        self.assertIn("leaked: 20 B in 1 block", out)

    def test_mapped_memory(self):
        """A mapping is a block. What its handle holds beside counts as reserved, and leaks by itself; an alias holds nothing."""
        out = self.report(t.header() + t.chunk(
            t.event(1, 1, "alloc", "cuMemCreate", 7, 100, kind="vmm") + t.event(2, 2, "alloc", "cuMemCreate", 8, 40, kind="vmm") +
            t.event(3, 3, "alloc", "cuMemMap", 0x1000, 60, kind="mapped", stream=7) +
            t.event(4, 4, "alloc", "cuMemMap", 0x2000, 40, kind="mapped", stream=8) +
            t.event(5, 5, "map", "cuMemMap", 0x3000, 40, kind="vmm") + t.event(6, 6, "free", "cuMemRelease", 8, 40, kind="vmm") +
            t.event(7, 7, "free", "cuMemUnmap", 0x2000, 40, kind="mapped")))[1]
        self.assertRegex(out, r"allocations +2 \(100 B\)")
        self.assertRegex(out, r"peak live +100 B")
        self.assertRegex(out, r"peak reserved +140 B")
        self.assertRegex(out, r"live at the end +100 B in 2 blocks")
        self.assertIn("leaked: 100 B in 2 blocks", out)

    def test_context_gone_takes_its_blocks(self):
        out = self.report(t.header() + t.chunk(
            t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 10, context=1) +
            t.event(2, 2, "alloc", "cuMemAlloc", 0x2000, 20, context=2) +
            t.event(3, 3, "context_gone", "cuCtxDestroy", 0, 0, context=1)))[1]
        self.assertIn("leaked: 20 B in 1 block", out)

    def test_no_events(self):
        status, out, _ = self.report(t.header())
        self.assertEqual(status, 0)
        self.assertIn("leaked: nothing", out)

    # unusable files

    def test_missing(self):
        self.refused(None, "No such file or directory")

    def test_empty(self):
        self.refused(b"", "the file is empty")

    def test_foreign(self):
        self.refused(b"\x7fELF and so on", "not a gpumem trace")
        self.refused(b"G", "truncated header: 1 bytes of 4096")

    def test_truncated_header(self):
        self.refused(t.header()[:100], "truncated header: 100 bytes of 4096")
        self.refused(t.header()[:1000], "truncated header: 1000 bytes of 4096")

    def test_newer(self):
        self.refused(t.header(version=4), "trace version 4 is newer than this gpumem, which reads up to 3")
        self.refused(t.header(version=2), "trace version 2 was written by an older gpumem; this one reads the versions 1 and 3")

    def test_event_size(self):
        self.refused(t.header(event_bytes=48), "damaged header: events of 48 bytes, expected 64")

    def test_header_and_chunk_size(self):
        self.refused(t.header(header_bytes=5), "damaged header: its length is 5 bytes")
        self.refused(t.header(chunk_bytes=7), "damaged header: chunks of 7 bytes")

    # damaged, yet usable

    def test_cut_at_any_place(self):
        whole = t.sample()
        for size in range(t.HEADER, len(whole), 509):
            status, out, err = self.report(whole[:size])
            self.assertEqual((status, err), (0, ""))

    def test_hole(self):
        event = t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 10)
        status, out, _ = self.report(t.header() + b"\0" * 3 * 4096 + t.chunk(event))
        self.assertIn("1 events over", out)
        self.assertNotIn("damaged", out)

    def test_damage_is_said(self):
        good = t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 10)
        bad_action = good[:55] + b"\xff" + good[56:]
        for data in (t.chunk(good) + t.chunk(good, used=1 << 30), t.chunk(good) + t.chunk(good, size=4096)[:20] + b"\x07" * 100,
                     t.chunk(good + bad_action), t.chunk(b"\x03\0\0\0\1\0\0\0", kind=2)):
            status, out, err = self.report(t.header() + data)
            self.assertEqual((status, err), (0, ""))
        self.assertIn("damaged", self.report(t.header() + t.chunk(good + bad_action))[1])

    def test_a_file_whose_end_is_cut_off_is_said(self):
        chunks = [t.chunk(t.event(i, i, "alloc", "cuMemAlloc", 0x1000 * i, 10)) for i in (1, 2)]
        whole = t.header(file_bytes=t.HEADER + sum(map(len, chunks))) + b"".join(chunks)
        self.assertNotIn("missing parts", self.report(whole)[1])
        self.assertIn("note: 1 damaged or missing parts", self.report(whole[: -len(chunks[1])])[1])

    def test_checks_prove_nothing_on_damaged_evidence(self):
        chunks = [t.chunk(t.event(i, i, action, "cuMemAlloc" if action == "alloc" else "cuMemFree", 0x1000, 10))
                  for i, action in ((1, "alloc"), (2, "free"))]
        whole = t.header(file_bytes=t.HEADER + sum(map(len, chunks))) + b"".join(chunks)
        for check in "--fail-on-leak", "--fail-on-error", "--limit=1M":
            self.assertEqual(self.report(whole, "x.trace", check)[0], 0)
            for data in (whole + t.chunk(b"\xff" * 64), t.header(dropped=3) + chunks[0] + chunks[1]):
                status, _, err = self.report(data, "x.trace", check)
                self.assertEqual(status, 4, err)
                self.assertIn("x.trace: ", err)
        # what is leaked, or too much, in a trace that is cut off is so still
        for check in "--fail-on-leak", "--limit=1":
            self.assertEqual(self.report(whole[: -len(chunks[1])], "x.trace", check)[0], 3)

    def test_lost_events_are_said(self):
        self.assertIn("note: 1,234 events were lost", self.report(t.header(dropped=1234))[1])
        self.assertIn("note: 1,234 events did not fit below GPUMEM_TRACE_LIMIT=1.00 MiB\n", self.report(t.header(dropped=1234, limit=1 << 20))[1])
        self.assertIn("note: the program did not end normally", self.report(t.header(finished=0))[1])
        self.assertIn("note: a ring (GPUMEM_TRACE_RING): only the latest events", self.report(t.header(ring=1))[1])

    def test_blocks_leak_only_where_the_program_could_free_them(self):
        block = t.chunk(t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 10))
        for finished, words in ((0, "  live: 10 B in 1 block\n"), (1, "  leaked: 10 B in 1 block\n"), (2, "  live: 10 B in 1 block\n")):
            for out in (self.report(t.header(finished=finished) + block)[1],):
                self.assertIn(words, out)
                self.assertEqual("LEAKS" in out, finished == 1, out)
                self.assertEqual("note: recording was stopped before the program ended\n" in out, finished == 2, out)

    def test_blocks_held_to_the_end_are_named(self):
        """What the last frees of a program release was not leaked, but held longest."""
        records = t.chunk(t.module(0x10000, 0x10000, 0x20000, "/opt/none/app") + t.site(1, [0x10123]) + t.site(2, [0x10456]), kind=2)
        step = [t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 10, site=1), t.event(2, 2, "alloc", "cuMemAlloc", 0x2000, 20, site=1),
                t.event(3, 3, "free", "cuMemFree", 0x1000, 10), t.event(4, 4, "alloc", "cuMemAlloc", 0x3000, 5, site=2)]
        end = [t.event(5, 5, "free", "cuMemFree", 0x2000, 20), t.event(6, 6, "free", "cuMemFree", 0x3000, 5)]
        trace = t.header() + records + t.chunk(b"".join(step + end))
        self.assertIn("  freed after the last allocation: 25 B in 2 blocks;", self.report(trace)[1])
        self.assertRegex(self.report(trace, "x.trace", "--leaks")[1], r"freed last +blocks +of *\n +20 B +1 +2  app\+0x123 *\n +5 B +1 +1  app\+0x456")
        self.assertNotIn("freed last", self.report(t.header() + records + t.chunk(b"".join(step)), "x.trace", "--leaks")[1])

    def test_csv(self):
        head = ("seq,time_ns,action,call,address,bytes,device,stream,thread,duration_ns,bytes_got,kind,reason,verdict,hit,site,"
                "context,result,flags,pid\n")
        text = (head + "# site 3 0 0x10456\n# module 0x10000 0x10000 0x20000 - /opt/none/my app\n"
                "2,500,free,cuMemFree,0x10,100,0,0x0,9,10,100,native,none,native,0,0,1,0,0,77\n"
                "1,100,alloc,cuMemAlloc,0x10,100,0,0x0,9,10,128,native,policy,native,0,3,1,0,0,77\n"
                "3,600,alloc,cuMemAlloc,0x20,50,0,0x0,9,10,50,native,policy,native,0,3,1,0,0,77\n"
                "no,event\n4,700,alloc,cuMemAl")
        status, out, err = self.report(text.encode(), "x.csv")
        self.assertEqual((status, err), (0, ""))
        for line in ("3 events over", "peak reserved     128 B", "live: 50 B in 1 block", "my app+0x456",
                     "note: 2 damaged or missing parts", "pid 77"):
            self.assertIn(line, out)
        self.assertNotIn("unknown frees", out)

    def test_usage(self):
        for arguments, words in ((["--top", "x", "f"], "--top 'x' is not a number"), (["--bogus", "f"], "unknown option"),
                                 (["--peak=all", "f"], "option '--peak=all' takes no value"),
                                 ([], "no trace given"), (["--top"], "needs a value")):
            done = subprocess.run([GPUMEM, "report", *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn(words, done.stderr)

    def test_full_output_device(self):
        path = os.path.join(self.folder.name, "x.trace")
        with open(path, "wb") as f:
            f.write(t.sample())
        with open("/dev/full", "w") as full:
            done = subprocess.run([GPUMEM, "report", path], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "gpumem: cannot write the report\n"))

    def test_output_that_nobody_gets(self):
        """Whatever a command prints: one line and status 1. A file that is opened meanwhile does not get the text."""
        path = os.path.join(self.folder.name, "x.trace")
        with open(path, "wb") as f:
            f.write(t.sample())
        for words in (["--version"], ["--help"], ["help", "report"], ["plot", "--help"], ["plan", "--lifetime", "1", "--force", "-o", path + ".plan", path]):
            for closed in (">/dev/full", ">&-"):
                done = subprocess.run(["/bin/sh", "-c", f'exec "$0" "$@" {closed}', GPUMEM, *words], stderr=subprocess.PIPE, text=True)
                self.assertEqual((done.returncode, done.stderr), (1, "gpumem: cannot write to standard output\n"), (words, closed))
            if words[0] == "plan":
                with open(path + ".plan") as f:
                    self.assertRegex(f.read(), r"\Agpumem-plan 1\n(#.*\n|site .*\n|\d+ (async|managed|native) \d+ (\d+|-).*\n)*\Z")

    def test_events_that_no_program_causes(self):
        """A block above any address space, a time before the start: damaged, not counted."""
        path = os.path.join(self.folder.name, "x.trace")
        for wrong in ((2, 20, "alloc", "cuMemAlloc", 0x2000, (1 << 57) + 1), (2, (1 << 64) - 2, "free", "cuMemFree", 0x1000, 64)):
            events = [t.event(1, 10, "alloc", "cuMemAlloc", 0x1000, 64), t.event(*wrong), t.event(3, 30, "alloc", "cuMemAlloc", 0x3000, 32),
                      t.event(4, 40, "alloc_fail", "cuMemAlloc", 0, (1 << 64) - 1, result=2)]
            with open(path, "wb") as f:
                f.write(t.header() + t.chunk(b"".join(events)))
            done = subprocess.run([GPUMEM, "report", path], capture_output=True, text=True)
            self.assertIn("\nnote: 1 damaged or missing parts of the file were skipped\n", done.stdout)
            self.assertRegex(done.stdout, r"\n  allocations       2 \(96 B\)\n")
            self.assertRegex(done.stdout, r"\n  peak live         96 B at ")

    def test_every_command_names_damaged_parts(self):
        """Once, on standard error, where the output has no place for it."""
        path = os.path.join(self.folder.name, "x.trace")
        with open(path, "wb") as f:
            f.write(t.sample() + t.chunk(t.event(90, 20, "alloc", "cuMemAlloc", 0x2000, (1 << 57) + 1)))
        line = f"gpumem: {path}: 1 damaged or missing parts of the file were skipped\n"
        commands = [["diff", path, path], ["plan", "--lifetime", "1", "-o", "/dev/null", path]]
        commands += [["export", "--to", to, "-o", "-", path] for to in ("csv", "rmm", "collapsed")]
        for words in commands:
            done = subprocess.run([GPUMEM, *words], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, line * (2 if words[0] == "diff" else 1)), words)

    def test_suppressions_that_are_a_folder(self):
        done = subprocess.run([GPUMEM, "report", "--suppressions", self.folder.name, "x.trace"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, f"gpumem: {self.folder.name}: Is a directory\n"))

    def test_an_empty_name(self):
        done = subprocess.run([GPUMEM, "report", ""], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "gpumem: '': No such file or directory\n"))


if __name__ == "__main__":
    unittest.main()
