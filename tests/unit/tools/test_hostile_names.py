"""Names that act in a terminal, in a spreadsheet or in a format of lines: of programs, hosts, modules, functions, source
files, ranges, devices, Python frames, files, and in the counters of other processes. No output of the tool lets one act.

usage: test_hostile_names.py GPUMEM PAGE_LIBRARY PROBE HAVE_DW HAVE_JSON HAVE_SQLITE HAVE_PROTOBUF
"""
import gzip
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import elf_file
import trace_file as t
from tool_case import ToolCase

GPUMEM, PAGE, PROBE = map(os.path.abspath, sys.argv[1:4])
HAVE_DW, HAVE_JSON, HAVE_SQLITE, HAVE_PROTOBUF = (word == "true" for word in sys.argv[4:8])
del sys.argv[1:]
# What a spreadsheet takes for a formula, a title of the terminal, a colour, new lines and fields that begin with something
# of their own, a reversed direction, a control character of 8 bits, and bytes that are no text.
FOREIGN = b"=1\x1b]0;own\x07\x1b[31m\nFORGED\r\t,=2\t+3;@4\xe2\x80\xae\xc2\x9b2J\xff\xe2\x80"
SHOWN = "=1\\x1b]0;own\\x07\\x1b[31m\\x0aFORGED\\x0d\\x09,=2\\x09+3;@4\\u202e\\u009b2J\\xff\\xe2\\x80"
BEGIN = "=1\\x1b]0;own"
CUT = SHOWN[:SHOWN.index("\\u009b")]  # to 63 bytes
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|^FORGED", re.M)
M = 1 << 20
REPORT = ["peak", "leaks", "temporary", "sizes", "lifetimes", "objects", "threads", "streams", "kinds", "reserved", "growth", "duplicates",
          "oom", "phases"]


MODULE, SOURCE = b"m" + FOREIGN, b"/x/" + FOREIGN


def trace(folder, size=4 * M):
    """Every text of a trace is foreign. A block is leaked, one held while memory runs out, a contents copied twice."""
    records = t.module(0x10000, 0x10000, 0x20000, os.fsencode(folder) + b"/" + MODULE) + t.device(0, 80 << 30, FOREIGN)
    records += t.string(1, FOREIGN) + t.string(2, b"in " + FOREIGN) + t.python(1, 7, FOREIGN, SOURCE)
    records += t.site(1, [0x11010, 0x11110]) + t.site(2, [0x11110, 0x11010]) + t.site(3, [0x11210, t.PYTHON_FRAME + 1])
    events = [("phase_begin", "none", 0, 0, 1), ("phase_begin", "none", 0, 0, 2), ("alloc", "cuMemAlloc", 0x1000, size, 1),
              ("alloc", "cuMemAlloc", 0x2000, 8 * M, 2), ("alloc", "cuMemAlloc", 0x8000, 16 * M, 3),
              ("alloc_fail", "cuMemAlloc", 0, 1 << 40, 2), ("free", "cuMemFree", 0x2000, 8 * M, 1)]
    rows = [t.event(seq, 1000 * seq, action, call, address, size, site=site, result=2 * (action == "alloc_fail"))
            for seq, (action, call, address, size, site) in enumerate(events, 1)]
    rows += [t.copy(8, 8000, 0x500, 0x77, 0x1000, M, site=1), t.copy(10, 9000, 0x500, 0x77, 0x8000, M, site=2),
             t.event(12, 10000, "phase_end", "none", 0, 0), t.event(13, 11000, "phase_end", "none", 0, 0)]
    header = t.header(host=FOREIGN, program=FOREIGN, policy=FOREIGN, library=FOREIGN[:31])
    return header + t.chunk(records, kind=2) + t.chunk(b"".join(rows))


class Foreign(ToolCase):
    GPUMEM = GPUMEM

    def setUp(self):
        super().setUp()
        self.folder_bytes = os.fsencode(self.folder.name)
        self.put(MODULE, elf_file.library([b"f" + FOREIGN, b"g" + FOREIGN, b"h" + FOREIGN]))
        self.put(FOREIGN, trace(self.folder.name))
        self.put(b"other" + FOREIGN, trace(self.folder.name, 5 * M))
        shutil.copy(self.at(FOREIGN), self.at(b"plain"))

    def at(self, name):
        return self.folder_bytes + b"/" + name

    def put(self, name, data):
        with open(self.at(name), "wb") as file:
            file.write(data)

    def get(self, name):
        with open(self.at(name), "rb") as file:
            return file.read()

    def output(self, *arguments, status=0, environment=None):
        """Standard output and error together, as a terminal gets them."""
        done = subprocess.run([GPUMEM, *arguments], cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100,
                              env=environment or os.environ)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def look(self, output, begin=BEGIN):
        """Nothing acts, and the text is there to be read."""
        text = output.decode()  # all of it is UTF-8
        self.assertIsNone(ACTS.search(text), text)
        self.assertIn(begin, text)
        return text

    # ---- the outputs of a trace

    def test_report(self):
        text = self.look(self.output("report", "--stacks", FOREIGN))
        self.assertIn("%s: pid 4242 on %s, %s, policy %s\ndevice 0: %s, " % (SHOWN, CUT, SHOWN, CUT, SHOWN), text)
        self.look(self.output("report", b"plain"))
        self.look(self.output("report", FOREIGN, b"other" + FOREIGN))
        self.look(self.output("report", b"."))

    def test_parts_of_the_report(self):
        for part in REPORT:
            with self.subTest(part):
                self.look(self.output("report", "--stacks", "--" + part, b"plain"), "" if part in ("sizes", "kinds", "reserved") else BEGIN)
        self.assertIn("in the phase                         %s > in %s\n" % (SHOWN, SHOWN), self.output("report", "--peak", b"plain").decode())

    @unittest.skipUnless(HAVE_DW, "built without libdw")
    def test_functions(self):
        self.assertIn("f%s (m%s" % (SHOWN, SHOWN), self.output("report", "--leaks", b"plain").decode())

    def test_gates(self):
        self.look(self.output("report", "--fail-on-leak", FOREIGN, status=3))
        self.look(self.output("report", "--limit=1", FOREIGN, status=3))

    @unittest.skipUnless(HAVE_JSON, "built without jansson")
    def test_json(self):
        every = ["--" + part for part in REPORT]
        for arguments in (["report", "--json", *every, FOREIGN], ["diff", "--json", FOREIGN, b"other" + FOREIGN], ["plot", "--json", FOREIGN],
                          ["report", "--sarif", FOREIGN]):
            with self.subTest(arguments[:2]):
                text = self.look(self.output(*arguments), "own")
                self.assertIn(SHOWN, "\n".join(texts_of(json.loads(text))))

    def test_diff(self):
        self.look(self.output("diff", FOREIGN, b"other" + FOREIGN))

    def test_page(self):
        self.look(self.output("html", "--output=page.html", FOREIGN), "page.html")
        self.look(self.get(b"page.html").replace(b"\t", b"  "), "=1\\u005cx1b]0;own")
        self.look(self.output("html", FOREIGN))

    # ---- exports

    def export(self, form, *more):
        self.look(self.output("export", "--to=" + form, "--output=out", "--force", *more, FOREIGN), "")
        return self.get(b"out")

    def look_at_csv(self, text):
        """No field that a spreadsheet makes is a formula."""
        for line in text.decode().split("\n"):
            for field in re.split("[,;\t]", line):
                self.assertRegex(field, r"^(?![=+@\t\r]|-(?!\d+$))")
        return self.look(text.replace(b"\t", b"  "), "1\\x1b]0\\x3bown").split("\n")

    def test_csv(self):
        """The tool reads the same texts again."""
        lines = self.look_at_csv(self.export("csv"))
        shutil.copy(self.at(b"out"), self.at(b"again.csv"))
        self.assertEqual(self.output("report", "--leaks", "--phases", b"again.csv").replace(b"again.csv", b"plain"),
                         self.output("report", "--leaks", "--phases", b"plain"))
        self.output("export", "--to=csv", "--output=again", b"again.csv")
        records = [line for line in lines if line.startswith(("# module", "# string", "# python"))]
        self.assertEqual([line for line in self.get(b"again").decode().replace("\t", "  ").split("\n") if line in records], records)

    def test_signs_of_formulas(self):
        """Each sign with which a formula begins, at the begin of each text of a trace."""
        for sign in (b"=", b"+", b"-", b"@"):
            name = sign + b"cmd|x!A1"
            records = t.module(0x10000, 0x10000, 0x20000, name) + t.device(0, 80 << 30, name) + t.string(1, name)
            records += t.python(1, 7, name, name) + t.site(1, [0x11010, t.PYTHON_FRAME + 1])
            header = t.header(host=name, program=name, policy=name, library=name)
            self.put(b"signs", header + t.chunk(records, kind=2) + t.chunk(t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000, M, site=1)))
            self.output("export", "--to=csv", "--output=out", "--force", "signs")
            text = self.get(b"out").decode()
            self.assertEqual(text.count("\\x%02xcmd|x!A1" % sign[0]), 9, text)
            self.assertNotIn(name.decode(), text)
            self.output("export", "--to=rmm", "--output=out", "--force", "signs")
            self.assertNotIn(b"cmd", self.get(b"out"))

    @unittest.skipUnless(HAVE_JSON, "built without jansson")
    def test_replay(self):
        if "  replay " not in self.output("help").decode():
            self.skipTest("built without the CUDA headers")
        self.look(self.output("replay", FOREIGN), "")
        self.assertIn(SHOWN, texts_of(json.loads(self.look(self.output("replay", "--json", FOREIGN), "own"))))
        self.look(self.output("replay", b"--policy=" + FOREIGN, b"plain", status=2))

    def test_rmm(self):
        text = self.look(self.export("rmm"), "Thread,Time,Action,Pointer,Size,Stream\n")
        self.assertNotRegex(text, "(^|,)[=+@-]")

    def test_collapsed(self):
        for line in self.look(self.export("collapsed", "--measure=leaked"), "=1\\x1b]0:own").splitlines():
            self.assertRegex(line, r"^[^;]*(;[^;]*)? \d+$")

    def test_heaptrack(self):
        for line in self.look(self.export("heaptrack")).splitlines():
            self.assertRegex(line, "^[vXIsitac+-] ")

    def test_packed_formats(self):
        """The texts in them are as they are shown, so a reader that prints them does no harm."""
        for form in ["perfetto", "torch"] + ["pprof"] * HAVE_PROTOBUF + ["sqlite"] * HAVE_SQLITE:
            with self.subTest(form):
                data = self.export(form)
                data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
                self.assertIn(SHOWN.encode()[:24], data)
                for part in (b"\x1b]0", b"\x1b[31m", b"\nFORGED", b"\xe2\x80\xae", b"\xc2\x9b", b"2J\xff"):
                    self.assertNotIn(part, data)

    @unittest.skipUnless(HAVE_SQLITE, "built without sqlite3")
    def test_sqlite(self):
        self.export("sqlite")
        base = sqlite3.connect(os.fsdecode(self.at(b"out")))
        self.addCleanup(base.close)
        base.text_factory = bytes
        found = 0
        for table, in base.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
            for row in base.execute("SELECT * FROM " + table.decode()):
                for value in row:
                    if isinstance(value, bytes):
                        found += BEGIN in self.look(value, "")
        self.assertGreater(found, 10)

    # ---- plans

    def test_plan(self):
        self.look(self.output("plan", "--lifetime=1ms", "--output=plan", FOREIGN), "")
        self.look(self.get(b"plan"))
        self.look(self.output("plan", "--lifetime=1ms", "--output=-", FOREIGN))
        self.look(self.output("plan", "--lifetime=1ms", "--as-rules", "--output=-", FOREIGN), "")

    # ---- errors

    def test_errors(self):
        self.put(b"e" + FOREIGN, b"no trace")
        self.put(b"s" + FOREIGN, b"{\n" + FOREIGN + b"\n")
        os.mkdir(self.at(b"empty" + FOREIGN))
        wrong, folder = b"e" + FOREIGN, b"empty" + FOREIGN
        rows = [(1, ["report", wrong]), (1, ["report", b"no" + FOREIGN]), (1, ["report", folder]), (1, ["diff", wrong, wrong]),
                (1, ["export", "--to=csv", "--output=x", wrong]), (1, ["html", wrong]), (1, ["plan", "--output=x", wrong]),
                (1, ["export", "--to=csv", b"--output=" + folder, b"plain"]),
                (2, ["report", b"--suppressions=s" + FOREIGN, b"plain"]), (2, ["report", b"--top=" + FOREIGN, b"plain"]), (2, [FOREIGN]),
                (2, ["report", b"--" + FOREIGN, b"plain"]), (2, ["limit", FOREIGN]), (2, ["top", FOREIGN]), (2, ["trace", "start", FOREIGN]),
                (127, ["run", "--", FOREIGN]), (127, ["run", "--", b"/" + FOREIGN]), (126, ["run", "--", b"./" + folder]),
                (2, ["run", b"--library=" + FOREIGN, "--", "true"]), (2, ["run", b"--policy=" + FOREIGN, "--", "true"])]
        for status, arguments in rows:
            with self.subTest(arguments):
                self.look(self.output(*arguments, status=status), "own")

    def test_suppressions(self):
        self.put(b"good", b"{\n   " + FOREIGN.replace(b"\n", b"") + b"\n   gpumem:leak\n   ...\n}\n")
        self.look(self.output("report", "--leaks", "--suppressions=good", b"plain"))

    # ---- running processes

    def child(self, **settings):
        """A process whose counters hold the text."""
        environment = dict(os.environb, FOREIGN=FOREIGN, LD_PRELOAD=PAGE, **settings)
        child = subprocess.Popen(["/bin/sh", "-c", "echo ready; read nothing"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait, 60)
        self.addCleanup(child.kill)
        self.addCleanup(child.stdin.close)
        self.assertEqual(child.stdout.readline(), b"ready\n")
        return str(child.pid)

    def test_top(self):
        pid = self.child(FOREIGN_TRACE=self.at(b"e" + FOREIGN), FOREIGN_GROUP=b"1")
        self.look(self.output("top", "--batch", "--count=1", pid))
        self.look(self.output("top", "--batch", "--count=1", "--sites", pid))
        labels = self.look(self.output("top", "--prometheus", pid), "=1\\\\x1b]0;own")
        for line in labels.splitlines():
            self.assertRegex(line, r'^(# .*|\w+\{\w+="([^"\\]|\\[\\"])*"(,\w+="([^"\\]|\\[\\"])*")*\} \d+)$')
        if HAVE_JSON:
            self.assertIn(BEGIN, json.loads(self.look(self.output("top", "--json", "--count=1", pid), ""))["program"])

    def test_sites_of_top(self):
        self.look(self.output("top", "--batch", "--count=1", "--sites", self.child(FOREIGN_TRACE=self.at(FOREIGN))))

    def test_trace_control(self):
        self.look(self.output("trace", "start", self.child(FOREIGN_TRACE=FOREIGN), status=1))
        self.look(self.output("trace", "start", "--trace=x", self.child()))
        self.look(self.output("trace", "start", "--trace=x", self.child(FOREIGN_FAILS=b"1"), status=1))
        self.look(self.output("trace", "stop", self.child(FOREIGN_TRACE=FOREIGN)))
        self.look(self.output("trace", "dump", b"--output=no/" + FOREIGN, self.child(FOREIGN_TRACE=self.at(FOREIGN)), status=1), "")

    def test_limit(self):
        self.look(self.output("limit", self.child(FOREIGN_GROUP=b"1"), status=1), "own")

    def test_closing_lines(self):
        environment = dict(os.environb, FOREIGN=FOREIGN, FOREIGN_TRACE=self.at(FOREIGN))
        text = self.look(self.output("run", b"--library=" + os.fsencode(PAGE), "--", "true", environment=environment))
        command = re.search("next: gpumem report (.*)", text)[1]
        named = subprocess.run(["bash", "-c", "printf %s " + command], stdout=subprocess.PIPE)
        self.assertEqual(named.stdout, self.at(FOREIGN))  # the line can be copied
        two = self.output("run", b"--library=" + os.fsencode(PAGE), "--", "sh", "-c", "true; /bin/true", environment=environment)
        self.look(two)

    def test_traces_of_a_program(self):
        """The library's own CSV trace, of a program with such a name."""
        shutil.copy("/bin/true", self.at(FOREIGN))
        self.put(b"x.csv", b"")
        done = subprocess.run([b"./" + FOREIGN], cwd=self.folder.name, capture_output=True,
                              env=dict(os.environb, PROBE=b"1", LD_PRELOAD=PROBE, GPUMEM_TRACE=b"x.csv", GPUMEM_POLICY=FOREIGN))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.look_at_csv(self.get(b"x.csv"))
        self.look(self.output("report", b"x.csv"))


def texts_of(value):
    if isinstance(value, dict):
        return [text for key in value for text in texts_of(value[key])]
    return [text for one in value for text in texts_of(one)] if isinstance(value, list) else [value] * isinstance(value, str)


if __name__ == "__main__":
    unittest.main()
