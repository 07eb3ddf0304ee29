"""What a file claims of itself costs no more than the file: numbers of call sites, holes, lines without an end, packed bytes.

usage: test_claims.py GPUMEM HAVE_JSON HAVE_REPLAY HAVE_ZSTD HAVE_ZLIB
"""
import gzip
import os
import resource
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
HAVE_JSON, HAVE_REPLAY, HAVE_ZSTD, HAVE_ZLIB = (word == "true" for word in sys.argv[1:5])
del sys.argv[1:]
M = 1 << 20
HEADER = ("seq,time_ns,action,call,address,bytes,device,stream,thread,duration_ns,bytes_got,kind,reason,verdict,hit,site,context,result,"
          "flags,pid\n# gpumem 3 start_ns 1 epoch_ns 2 pid 7 parent 1 rank -1\n# host h\n# program p\n# policy p\n")


def line(seq, site, action="alloc", size=4096):
    return "%d,%d,%s,cuMemAlloc,0x%x,%d,0,0x0,9,0,%d,native,none,native,0,%d,1,0,0,7\n" % (seq, seq, action, seq << 12, size, size, site)


class Claims(ToolCase):
    def limited(self, *arguments, memory=512 * M, seconds=20):
        """Runs the tool with so much memory and processor time."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        done = subprocess.run([self.GPUMEM, *arguments], cwd=self.folder.name, capture_output=True, text=True, timeout=100, preexec_fn=limit)
        return done.returncode, done.stdout, done.stderr

    # ---- numbers

    def commands(self, *traces):
        yield from (["report", *traces], ["report", "--leaks", "--peak", "--objects", *traces])
        yield ["diff", *(2 * traces)[:2]]
        yield ["html", "--force", "--output=page", *traces]
        yield from (["export", "--force", "--output=out", "--to=" + form, *traces] for form in ("csv", "collapsed", "torch", "heaptrack"))
        yield ["plan", "--force", "--lifetime=1ms", "--output=plan", *traces]
        if HAVE_JSON:
            yield from (["report", "--json", "--leaks", *traces], ["plot", "--json", *traces])
        if HAVE_REPLAY:
            yield from (["replay", "--policy=plan:plan", *traces], ["replay", "--policy=active-list", *traces])

    def test_numbers_of_call_sites(self):
        top = [4294967295, 4294967294, 4000000000, 1 << 22, (1 << 22) - 1, 1 << 31, 1]
        text = HEADER + "".join("# site %d 0 0x%x 0x999\n" % (site, 16 * site) for site in top)
        text += "".join(line(seq, site) for seq, site in enumerate(top + [77, 4294967293], 1))
        records = b"".join(t.site(site, [16 * site, 0x999]) for site in top)
        events = b"".join(t.event(seq, seq, "alloc", "cuMemAlloc", seq << 12, 4096, site=site) for seq, site in enumerate(top + [77], 1))
        for name, data in (("x.csv", text), ("x", t.header() + t.chunk(records, kind=2) + t.chunk(events))):
            self.write(name, data)
            for command in self.commands(name):
                with self.subTest(command):
                    status, out, err = self.limited(*command)
                    self.assertEqual((status, err), (0, ""), out)
            self.assertEqual(sorted(os.listdir(self.folder.name)), sorted({"x.csv", name, "page", "out", "plan"}))
        self.assertIn("0x3fffff0", self.good("report", "--leaks", "x.csv"))

    def test_numbers_of_more_than_32_bits(self):
        """They name nothing, and not the number that is left of them."""
        self.write("x.csv", HEADER + "# site 4294967297 0 0x10\n# string 4294967297 a\n# python 4294967297 1 f\tg\n" + line(1, 1))
        out = self.run_tool("report", "--leaks", "x.csv")[1]
        self.assertIn("3 damaged", out)
        self.assertIn("site 1, which the trace does not describe", out)

    # ---- holes

    def sparse(self, name, parts, size=200 << 30):
        """A file with these parts at their places, and holes elsewhere."""
        with open(self.path(name), "wb") as file:
            for at, data in parts:
                file.seek(at)
                file.write(data)
            try:
                file.truncate(size)
            except OSError as error:
                self.skipTest(error)
        if os.stat(self.path(name)).st_blocks > 1 << 20:
            self.skipTest("a file system without holes")
        return name

    BLOCK = staticmethod(lambda seq: t.chunk(t.event(seq, seq, "alloc", "cuMemAlloc", seq << 12, 4096)))

    def test_holes_between_chunks(self):
        name = self.sparse("x", [(0, t.header() + self.BLOCK(1)), (77 << 30, self.BLOCK(2)), ((200 << 30) - 8192, self.BLOCK(3))])
        status, out, err = self.limited("report", name)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("allocations       3 (12.00 KiB)", out)

    def test_holes_in_chunks(self):
        """Headers of the longest chunks, whose events would be in the holes behind them."""
        longest = 1 << 26
        head = struct.pack("<IHHiII44x", t.CHUNK_MAGIC, 1, 0, 9, longest - 64, longest)
        name = self.sparse("x", [(0, t.header(chunk_bytes=longest) + self.BLOCK(1))] +
                           [(8192 + i * longest, head) for i in range(1, 1000)], 1000 * longest + 8192)
        status, out, err = self.limited("report", name)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("allocations       1 (4.00 KiB)", out)
        self.assertIn("damaged", out)

    def test_holes_in_lines(self):
        name = self.sparse("x.csv", [(0, (HEADER + line(1, 0) + "2,2").encode()), (99 << 30, ("\n" + line(3, 0)).encode())])
        status, out, err = self.limited("report", name)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("allocations       2 (8.00 KiB)", out)
        self.assertRegex(out, "[12] damaged")

    def test_long_lines(self):
        """They are lost, and those behind them are not."""
        for length in ((1 << 19) - 2, (1 << 19) - 1, 1 << 19, (1 << 19) + 1, 3 * M, 64 * M):
            with self.subTest(length):
                self.write("x.csv", HEADER + line(1, 0) + "x" * length + "\n" + line(2, 0) + "# " + "y" * length)
                status, out, err = self.limited("report", "x.csv", memory=128 * M)
                self.assertEqual((status, err), (0, ""))
                self.assertIn("allocations       2 (8.00 KiB)", out)
                self.assertIn("2 damaged", out)

    def test_holes_in_suppressions(self):
        self.write("x", t.sample())
        good = "{\n a\n gpumem:leak\n ...\n}\n"
        self.sparse("holes", [(0, good.encode())])
        for name, text in (("cut", good + "#" + 70000 * "y"), ("long", good + "#" + 65532 * "y" + "\n")):
            self.write(name, text)
        for name in ("holes", "cut", "long"):
            with self.subTest(name):
                self.assertEqual(self.limited("report", "--suppressions=" + name, "x")[::2],
                                 (2, "gpumem: %s:6: a line of more than 65532 bytes\n" % name))
        self.write("good", good + "#" + 65531 * "y" + "\n" + good)
        self.good("report", "--suppressions=good", "x")

    def test_holes_in_plans_and_options(self):
        self.sparse("holes", [(0, b"1\n")])
        for argument in ("--policy=plan:holes", "--policy=static:@holes", "--config=holes"):
            with self.subTest(argument):
                status, out, err = self.limited("run", argument, "--", "true")
                self.assertEqual(status, 2)
                self.assertRegex(err, "larger than (4 G|1 M)iB|Value too large")

    # ---- packed files

    @unittest.skipUnless(HAVE_ZSTD, "built without libzstd")
    def test_small_files_that_unpack_to_large_ones(self):
        """A frame of blocks that repeat one byte 128 Ki times."""
        def frame(data, blocks):
            parts = [struct.pack("<I", len(data) << 3)[:3] + data] + [struct.pack("<I", (1 << 17) << 3 | 1 << 1)[:3] + b"\0"] * blocks
            return struct.pack("<IBB", 0xfd2fb528, 0, 0x38) + b"".join(parts) + struct.pack("<I", 1)[:3]
        data = t.header() + self.BLOCK(1)
        self.write("good", frame(data, 80))
        self.assertIn("allocations       1", self.good("report", "good"))
        self.write("x", frame(data, 4096))
        status, out, err = self.limited("report", "x")
        self.assertEqual((status, out, err), (1, "", "gpumem: x: unpacks to more than 256 MiB and 1000 times its size, as no trace "
                                              "does; if you trust it, unpack it yourself\n"))
        self.sparse("x", [(0, frame(data, 4096))])  # its length does not count
        self.assertIn("unpacks to more than", self.limited("report", "x")[2])

    @unittest.skipUnless(HAVE_ZLIB, "built without zlib")
    def test_a_hole_behind_a_packed_file(self):
        self.sparse("x", [(0, gzip.compress(t.header() + self.BLOCK(1)))])
        self.assertIn("allocations       1", self.limited("report", "x")[1])


if __name__ == "__main__":
    unittest.main()
