"""gpumem export: each format is read back by the program it is for, or by a reader of its format."""
import csv
import gzip
import json
import os
import pickle
import pickletools
import random
import re
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as t
from tool_case import ToolCase

ToolCase.GPUMEM = os.path.abspath(sys.argv.pop(1))
PROTO = os.path.abspath(sys.argv.pop(1))
M = 1 << 20

# What memory_viz's own reader knows, see MemoryViz.js of PyTorch.
MEMORY_VIZ = {"PROTO", "APPEND", "APPENDS", "LIST", "TUPLE", "NEWFALSE", "NEWTRUE", "NONE", "BINGET", "BININT", "BININT1", "BININT2",
              "EMPTY_DICT", "EMPTY_LIST", "FRAME", "LONG1", "LONG_BINGET", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "SETITEMS",
              "SETITEM", "DICT", "SHORT_BINUNICODE", "BINUNICODE", "STOP", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "BINFLOAT"}


def fields(message):
    """The fields of a protobuf message: numbers, or bytes."""
    found, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        value = number()
        if key & 7 == 2:
            at += value
            value = message[at - value:at]
        else:
            assert key & 7 == 0, key
        found.setdefault(key >> 3, []).append(value)
    return found


def perfetto(content):
    """Packets of a trace of Perfetto, by the numbers of its public schema."""
    def one(message, field, usual=None):
        return message.get(field, [usual])[0]

    def texts(packet, field):
        return [(one(entry, 1), one(entry, 2).decode()) for interned in packet.get(12, []) for entry in map(fields, fields(interned).get(field, []))]

    packets = []
    for packet in map(fields, fields(content)[1]):
        events = [{"type": one(event, 9), "track": one(event, 11), "name_iid": one(event, 10), "name": one(event, 23, b"").decode(), "value": one(event, 30),
                   "notes": [(one(note, 1), one(note, 3, one(note, 7))) for note in map(fields, event.get(4, []))]}
                  for event in map(fields, packet.get(11, []))]
        tracks = [{"uuid": one(track, 1), "name": one(track, 2, b"").decode(), "parent": one(track, 5), "counter": 8 in track,
                   "process": [(one(process, 1), one(process, 6).decode()) for process in map(fields, track.get(3, []))][0] if 3 in track else None}
                  for track in map(fields, packet.get(60, []))]
        packets.append({"time": one(packet, 8), "events": events, "track": tracks, "names": texts(packet, 2), "notes": texts(packet, 3)})
    return packets


class Export(ToolCase):
    def export(self, to, name="out", data=None, *options):
        """The path of the exported file; skips when the format is not built in."""
        self.write("x.trace", data or t.sample())
        status, out, err = self.run_tool("export", "--force", "--to", to, "-o", name, *options, "x.trace")
        if status == 2 and "built without" in err:
            self.skipTest(err)
        self.assertEqual((status, out, err), (0, "", ""))
        return self.path(name)

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()

    def need(self, program):
        if not shutil.which(program):
            self.skipTest(program + " is not installed")

    def test_an_output_appears_when_it_is_complete(self):
        """An existing file stays until then, also when the command fails or is interrupted, and --force is needed."""
        self.write("x.trace", t.sample())
        for to in ("csv", "sqlite"):
            self.write("out", "older")
            status, _, err = self.run_tool("export", "--to", to, "-o", "out", "x.trace")
            if "built without" in err:
                continue
            self.assertEqual((status, err), (2, "gpumem: export: 'out' exists; --force writes over it\n"))
            self.assertEqual(self.read(self.path("out")), b"older")
        limited = f"ulimit -f 1; trap '' XFSZ; exec {self.GPUMEM} export --force --to=csv -o out big.trace"
        self.write("big.trace", t.header() + t.chunk(b"".join(t.event(n + 1, n, "alloc", "cuMemAlloc", 4096 * (n + 1), 64) for n in range(4000))))
        done = subprocess.run(["bash", "-c", limited], cwd=self.folder.name, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "gpumem: cannot write 'out'\n"))
        self.assertEqual(self.read(self.path("out")), b"older")
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("out")], ["out"])

    def test_a_limit_on_files_leaves_nothing(self):
        self.write("x.trace", t.header() + t.chunk(b"".join(t.event(n, n, "alloc", "cuMemAlloc", 4096 * n, 64) for n in range(1, 4000))))
        done = subprocess.run([self.GPUMEM, "export", "--to=csv", "-o", "out", "x.trace"], cwd=self.folder.name, capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, 1 << 15)))
        self.assertEqual((done.returncode, done.stderr.count("cannot write 'out'")), (1, 1), done.stderr)
        self.assertEqual(os.listdir(self.folder.name), ["x.trace"])

    def test_an_interrupted_output_leaves_nothing(self):
        self.write("x.trace", t.header() + b"".join(t.chunk(b"".join(
            t.event(4000 * c + n + 1, n, "alloc", "cuMemAlloc", 4096 * (4000 * c + n + 1), 64) for n in range(4000))) for c in range(60)))
        for _ in range(25):  # the signal may come as soon as the file is there
            child = subprocess.Popen([self.GPUMEM, "export", "--to=csv", "-o", "out", "x.trace"], cwd=self.folder.name)
            while not any(name.startswith("out.") for name in os.listdir(self.folder.name)):
                self.assertIsNone(child.poll(), "too fast to be interrupted")
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.wait(20), -signal.SIGINT)
            self.assertEqual(os.listdir(self.folder.name), ["x.trace"])

    def test_csv_says_what_the_binary_says(self):
        self.export("csv", "x.csv")
        parts = ["--leaks", "--peak", "--threads", "--kinds", "--sizes", "--lifetimes", "--objects", "--stacks"]
        for options in ([], parts):
            a, b = (self.good("report", *options, name).split("\n", 1) for name in ("x.trace", "x.csv"))
            self.assertEqual(a[0].split(":", 1)[1], b[0].split(":", 1)[1])
            self.assertEqual(a[1], b[1])
        self.good("export", "--to=csv", "-o", "y.csv", "x.csv")
        self.assertEqual(sorted(self.read(self.path("x.csv")).split(b"\n")), sorted(self.read(self.path("y.csv")).split(b"\n")))

    def test_rmm(self):
        """Read as rmm/benchmarks/utilities/log_parser.hpp does."""
        with open(self.export("rmm"), newline="") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual(list(rows[0]), ["Thread", "Time", "Action", "Pointer", "Size", "Stream"])
        live = {}
        for row in rows:
            self.assertRegex(row["Time"], r"^\d\d:\d\d:\d\d\.\d{6}$")
            self.assertIn(row["Action"], ("allocate", "free", "allocate failure"))
            int(row["Thread"]), int(row["Stream"])
            pointer = 0 if row["Pointer"] == "(nil)" else int(row["Pointer"], 16)
            if row["Action"] == "allocate":
                self.assertNotIn(pointer, live)
                live[pointer] = int(row["Size"])
            elif row["Action"] == "free":
                self.assertEqual(live.pop(pointer), int(row["Size"]))
            else:
                self.assertEqual((pointer, int(row["Size"])), (0, 1 << 40))
        self.assertEqual(live, {0x1000: 4 * M, 0x5000: M})

    def heaptrack(self, name):
        self.need("heaptrack_print")
        path = self.export("heaptrack", name)
        done = subprocess.run(["heaptrack_print", path], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("failed to parse", done.stderr)
        return done.stdout

    def test_heaptrack(self):
        out = self.heaptrack("x.txt")
        for line in ("calls to allocation functions: 5 ", "temporary memory allocations: 1 ", "peak heap memory consumption: 16.78M",
                     "total memory leaked: 5.24M"):
            self.assertIn(line, out)
        self.assertIn("8.39M peak memory consumed over 2 calls from\napp+0x456\n  in /opt/none/app\n", out)
        self.assertIn("    app+0x789\n", out)

    def test_heaptrack_compressed(self):
        self.assertIn("peak heap memory consumption: 16.78M", self.heaptrack("x.gz"))

    def test_collapsed(self):
        def lines(measure):
            return sorted(self.read(self.export("collapsed", "out", None, "--measure", measure)).decode().splitlines())
        self.assertEqual(lines("peak"), ["app+0x123 %d" % (7 * M), "app+0x789;app+0x456 %d" % (8 * M), "libcublas.so.13+0x10 %d" % M])
        self.assertEqual(lines("allocations"), ["app+0x123 3", "app+0x789;app+0x456 2", "libcublas.so.13+0x10 1"])
        self.assertEqual(lines("leaked"), ["app+0x123 %d" % (4 * M + 512), "libcublas.so.13+0x10 %d" % M])
        self.assertEqual(lines("bytes")[1], "app+0x789;app+0x456 %d" % (10 * M))

    def test_pprof_by_protoc(self):
        self.need("protoc")
        packed = gzip.decompress(self.read(self.export("pprof")))
        done = subprocess.run(["protoc", "--decode=perftools.profiles.Profile", "-I", os.path.dirname(PROTO), PROTO], input=packed,
                              capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        text = done.stdout.decode()
        strings = re.findall(r'^string_table: "(.*)"$', text, re.M)
        self.assertEqual(strings[0], "")
        self.assertEqual(strings[int(re.search(r"^default_sample_type: (\d+)", text, re.M).group(1))], "peak_space")
        samples = {tuple(map(int, re.findall(r"value: (\d+)", s))) for s in re.findall(r"^sample \{(.*?)^\}", text, re.M | re.S)}
        self.assertEqual(samples, {(3, 7 * M + 512, 2, 4 * M + 512, 7 * M), (2, 10 * M, 0, 0, 8 * M), (1, M, 1, M, M)})
        ids = {kind: set(re.findall(r"^%s \{\n  id: (\d+)" % kind, text, re.M)) for kind in ("location", "function", "mapping")}
        self.assertEqual(set(re.findall(r"location_id: (\d+)", text)), ids["location"])
        self.assertEqual(set(re.findall(r"function_id: (\d+)", text)), ids["function"])
        self.assertLessEqual(set(re.findall(r"mapping_id: (\d+)", text)), ids["mapping"])

    def test_pprof_by_pprof(self):
        self.need("go")
        done = subprocess.run(["go", "tool", "pprof", "-top", self.export("pprof")], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("app+0x456", done.stdout)

    def test_perfetto(self):
        packets = perfetto(self.read(self.export("perfetto")))
        tracks = {track["uuid"]: track for packet in packets for track in packet.get("track", [])}
        self.assertEqual([track["process"] for track in tracks.values() if track["process"]], [(4242, "/bin/solver")])
        names = {iid: text for packet in packets for iid, text in packet["names"]}
        notes = {iid: text for packet in packets for iid, text in packet["notes"]}
        events = [(packet["time"], event) for packet in packets for event in packet["events"]]
        begun = [(time, event) for time, event in events if event["type"] == 1]
        self.assertEqual((len(begun), sum(event["type"] == 2 for _, event in events)), (6, 3))
        self.assertEqual([time for time, _ in begun][0], 1100)
        block = next(event for _, event in begun if {notes[iid]: value for iid, value in event["notes"]}["bytes"] == 8 * M)
        self.assertEqual(({notes[iid]: value for iid, value in block["notes"]}, names[block["name_iid"]], tracks[block["track"]]["name"]),
                         ({"bytes": 8 * M, "address": 0x3000, "device": 0}, "app+0x456", "blocks, native"))
        live = [event["value"] for _, event in events if event["type"] == 4 and tracks[event["track"]]["name"] == "device 0, live"]
        self.assertEqual((max(live), live[-1]), (16 * M, 5 * M))
        self.assertEqual([event["name"] for _, event in events if event["type"] == 3], ["cuMemAlloc alloc_fail"])

    def test_slices_of_perfetto_do_not_overlap(self):
        """Each end belongs to the block that its track has open, also where blocks end in another order."""
        dice, alive, events, now = random.Random(4), [], [], 0
        for number in range(1, 600):
            now += 10
            if alive and dice.random() < 0.5:
                address = alive.pop(dice.randrange(len(alive)))
                events.append(t.event(number, now, "free", "cuMemFree", address, 64, duration=0))
            else:
                alive.append(4096 * number)
                events.append(t.event(number, now, "alloc", "cuMemAlloc", 4096 * number, 64 * number, duration=0))
        packets, open_slices, most = perfetto(self.read(self.export("perfetto", "out", t.header() + t.chunk(b"".join(events))))), set(), 0
        for event in (event for packet in packets for event in packet["events"]):
            if event["type"] == 1:
                self.assertNotIn(event["track"], open_slices)
                open_slices.add(event["track"])
                most = max(most, len(open_slices))
            elif event["type"] == 2:
                open_slices.remove(event["track"])
        used = {event["track"] for packet in packets for event in packet["events"] if event["type"] == 1}
        self.assertEqual((len(open_slices), len(used)), (len(alive), most))

    def test_sqlite(self):
        path = self.export("sqlite")
        self.export("sqlite")  # a second time replaces it
        with sqlite3.connect(path) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            self.assertEqual(db.execute("SELECT pid, host, program, policy FROM trace").fetchall(),
                             [(4242, "node7", "/bin/solver", "auto")])
            self.assertEqual(db.execute("SELECT * FROM devices").fetchall(), [(0, "Test GPU", 80 << 30)])
            self.assertEqual(db.execute("SELECT count(*), sum(bytes) FROM blocks").fetchone(), (6, 18 * M + 512))
            self.assertEqual(db.execute("SELECT number, bytes_got, ended_ns, ended_by FROM blocks WHERE ended_by IS NULL OR "
                                        "ended_by <> 'free' ORDER BY number").fetchall(),
                             [(1, 5 * M, None, None), (3, M, None, None), (4, 512, None, None), (6, 3 * M, 21000000, "release")])
            self.assertEqual(db.execute("SELECT f.text, sum(b.bytes) FROM blocks b JOIN frames f ON f.site = b.site AND f.depth = 0 "
                                        "GROUP BY f.text ORDER BY 2 DESC").fetchall()[0], ("app+0x456", 10 * M))
            self.assertEqual(db.execute("SELECT count(*), sum(result = 2) FROM events").fetchone(), (11, 1))

    def test_a_call_site_on_two_devices(self):
        """It is one site, whose bytes add up."""
        trace = t.header() + t.chunk(t.module(0x10000, 0x10000, 0x20000, "/opt/none/app") + t.site(1, [0x10100]), kind=2) + t.chunk(
            b"".join(t.event(n + 1, 1000 * n, "alloc", "cuMemAlloc", 0x1000000 * (n + 1), (n + 1) * M, site=1, device=n) for n in range(2)))
        with sqlite3.connect(self.export("sqlite", "out", trace)) as db:
            self.assertEqual(db.execute("SELECT f.text, sum(b.bytes), count(*) FROM blocks b JOIN frames f ON f.site = b.site").fetchall(),
                             [("app+0x100", 3 * M, 2)])
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in self.good("export", "--to=collapsed", "-o", "-", "x.trace").splitlines()), 3 * M)

    def test_only_blocks(self):
        with sqlite3.connect(self.export("sqlite")) as whole, sqlite3.connect(self.export("sqlite", "blocks", None, "--only-blocks")) as part:
            for table, same in (("blocks", True), ("frames", True), ("phases", True), ("trace", True), ("events", False), ("memory", False)):
                rows = [some.execute(f"SELECT * FROM {table}").fetchall() for some in (whole, part)]
                self.assertEqual(rows[1], rows[0] if same else [], table)
        self.assertEqual(self.run_tool("export", "--to=csv", "--only-blocks", "-o", "y", "x.trace")[0], 2)

    def test_memory_of_each_device(self):
        records = t.chunk(t.device(0, 64 * M, "Card") + t.device(1, 64 * M, "Card"), kind=2)
        events = [t.event(1, 1000, "alloc", "cuMemAlloc", 0x1000, 3 * M), t.event(2, 2000, "alloc", "cuMemAlloc", 0x2000, 5 * M, device=1),
                  t.event(3, 3000, "free", "cuMemFree", 0x1000, 3 * M)]
        for several, first in ((True, records), (False, b"")):
            with sqlite3.connect(self.export("sqlite", "out", t.header() + first + t.chunk(b"".join(events)))) as db:
                rows = db.execute("SELECT time_ns, live / 1048576, device FROM memory").fetchall()
            self.assertEqual([row for row in rows if row[2] is None], [(1100, 3, None), (2100, 8, None), (3000, 5, None)])
            self.assertEqual([row for row in rows if row[2] is not None], [(1100, 3, 0), (2100, 5, 1), (3000, 0, 0)] if several else [])

    def test_memory_over_time(self):
        """Live, kept and reserved bytes at each change: of a cached block, and of memory that the program maps itself."""
        def cached(seq, action, **more):
            return t.event(seq, 1000 * seq, action, "cuMemAlloc" if action == "alloc" else "cuMemFree", 0x1000, 3 * M, kind="cache",
                           slack=M, **more)

        def mapped(seq, action, call, address, kind="vmm", **more):
            return t.event(seq, 1000 * seq, action, call, address, 2 * M, kind=kind, **more)

        events = [cached(1, "alloc"), cached(2, "free", flags=t.KEPT), cached(3, "alloc", hit=1), cached(4, "free", flags=t.KEPT),
                  mapped(5, "reserve", "cuMemAddressReserve", 0x2000), mapped(6, "alloc", "cuMemCreate", 0x77),
                  mapped(7, "alloc", "cuMemMap", 0x2000, "mapped", stream=0x77), mapped(8, "free", "cuMemUnmap", 0x2000, "mapped"),
                  mapped(9, "free", "cuMemRelease", 0x77, flags=t.KEPT), mapped(10, "unreserve", "cuMemAddressFree", 0x2000),
                  mapped(11, "alloc", "cuMemCreate", 0x77, hit=1), mapped(12, "alloc", "cuMemMap", 0x2000, "mapped", stream=0x77, hit=1),
                  mapped(13, "free", "cuMemRelease", 0x77), mapped(14, "free", "cuMemUnmap", 0x2000, "mapped", flags=t.KEPT),
                  t.event(15, 15000, "trim", "none", 0, 4 * M, kind="cache", reason=t.CACHE_LIMIT),
                  t.event(16, 16000, "trim", "none", 0, 2 * M, kind="mapped", reason=t.CACHE_LIMIT)]
        trace = t.header() + t.chunk(b"".join(events))
        changes = [(1100, 3, 0, 4), (2000, 0, 4, 4), (3100, 3, 0, 4), (4000, 0, 4, 4), (6100, 0, 4, 6), (7100, 2, 4, 6),
                   (8000, 0, 4, 6), (9000, 0, 6, 6), (11100, 0, 4, 6), (12100, 2, 4, 6), (14000, 0, 6, 6), (15000, 0, 2, 2),
                   (16000, 0, 0, 0)]
        with sqlite3.connect(self.export("sqlite", "out", trace)) as db:
            self.assertEqual(db.execute("SELECT time_ns, live / 1048576, kept / 1048576, reserved / 1048576 FROM memory").fetchall(),
                             changes)
        packets, found, now = perfetto(self.read(self.export("perfetto", "out", trace))), [], {"live": 0, "kept": 0, "reserved": 0}
        names = {track["uuid"]: track["name"] for packet in packets for track in packet.get("track", [])}
        for packet in packets:
            for event in packet["events"]:
                if event["type"] == 4:
                    now[names[event["track"]].split(", ")[1]] = event["value"] // M
                    if found and found[-1][0] == packet["time"]:
                        found.pop()
                    found.append((packet["time"], *now.values()))
        self.assertEqual(found, changes)
        totals = json.loads(self.good("report", "--json", "x.trace"))["traces"][0]["totals"]
        self.assertEqual(totals["peak_reserved_bytes"], 6 * M)

    def snapshot(self, data=None):
        path = self.export("torch", "t.pickle", data)
        raw = self.read(path)
        self.assertLessEqual({op.name for op, _, _ in pickletools.genops(raw)}, MEMORY_VIZ)
        return pickle.loads(raw)

    def test_torch(self):
        snapshot = self.snapshot()
        (trace,) = snapshot["device_traces"]
        for entry in trace:
            self.assertLessEqual({"action", "size", "stream", "time_us", "frames"}, set(entry))
        self.assertEqual([e["device_free"] for e in trace if e["action"] == "oom"], [(80 << 30) - 14 * M])
        self.assertEqual([(f["name"], f["filename"]) for f in trace[2]["frames"]],
                         [("app+0x456", "/opt/none/app"), ("app+0x789", "/opt/none/app")])
        segments = {s["address"]: s for s in snapshot["segments"]}
        self.assertEqual({a: (s["total_size"], s["requested_size"], s["blocks"][0]["state"]) for a, s in segments.items()},
                         {0x1000: (5 * M, 4 * M, "active_allocated"), 0x5000: (M, M, "active_allocated")})
        self.replay(snapshot)

    def replay(self, snapshot):
        """Each trace, played from nothing, ends with what the segments hold, as memory_viz plays it backwards."""
        for device, trace in enumerate(snapshot["device_traces"]):
            segments, blocks = {}, {}
            for e in trace:
                if e["action"] == "segment_alloc":
                    segments[e["addr"]] = e["size"]
                elif e["action"] == "alloc":
                    self.assertLessEqual(e["size"], segments[e["addr"]])
                    blocks[e["addr"]] = e["size"]
                elif e["action"] == "free_completed":
                    self.assertEqual(blocks.pop(e["addr"]), e["size"])
                elif e["action"] == "segment_free":
                    self.assertNotIn(e["addr"], blocks)
                    self.assertEqual(segments.pop(e["addr"]), e["size"])
            mine = [s for s in snapshot["segments"] if s["device"] == device]
            self.assertEqual(segments, {s["address"]: s["total_size"] for s in mine})
            self.assertEqual(blocks, {s["address"]: s["blocks"][0]["requested_size"] for s in mine})

    def test_torch_numbers_devices_and_batches(self):
        sizes = [0, 1, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 39, (1 << 40) - 1, (1 << 47) + 5,
                 (1 << 55) - 1, 1 << 55, 1 << 57]
        events, seq = [], 0
        for i in range(1300):
            seq += 1
            events.append(t.event(seq, seq, "alloc", "cuMemAlloc", 0x7f0000000000 + 512 * i, sizes[i % len(sizes)], device=i % 2,
                                  stream=0xffffffffffff0000 if i == 7 else 0))
        for i in range(0, 1300, 3):
            seq += 1
            events.append(t.event(seq, seq, "free", "cuMemFree", 0x7f0000000000 + 512 * i, sizes[i % len(sizes)], device=i % 2))
        snapshot = self.snapshot(t.header() + t.chunk(b"".join(events)))
        self.assertEqual(len(snapshot["device_traces"]), 2)
        seen = sorted(e["size"] for trace in snapshot["device_traces"] for e in trace if e["action"] == "alloc")
        self.assertEqual(seen, sorted(sizes[i % len(sizes)] for i in range(1300)))
        self.assertIn(0xffffffffffff0000, {e["stream"] for e in snapshot["device_traces"][1]})
        self.replay(snapshot)

    def test_csv_traces_are_exported_too(self):
        self.export("csv", "x.csv")
        for to in ("rmm", "collapsed", "heaptrack"):
            self.good("export", "--force", "--to", to, "-o", "1", "x.trace")
            self.good("export", "--force", "--to", to, "-o", "2", "x.csv")
            self.assertEqual(self.read(self.path("1")), self.read(self.path("2")), to)

    def test_standard_output(self):
        self.write("x.trace", t.sample())
        self.assertIn("app+0x789;app+0x456 ", self.good("export", "--to=collapsed", "--output=-", "x.trace"))

    def test_empty_trace(self):
        for to in ("csv", "rmm", "heaptrack", "pprof", "collapsed", "perfetto", "sqlite", "torch"):
            with self.subTest(to):
                self.export(to, "out", t.header())

    def test_usage(self):
        self.write("x.trace", t.sample())
        for arguments, words in ((["-o", "y", "x.trace"], "no format given"), (["--to=word", "-o", "y", "x.trace"], "--to 'word' is none of"),
                                 (["--to=csv", "x.trace"], "no output given"), (["--to=csv", "-o", "y"], "one trace is needed"),
                                 (["--to=csv", "-o", "x.trace", "x.trace"], "is the trace itself; give another output"),
                                 (["--to=collapsed", "--measure=x", "-o", "y", "x.trace"], "--measure 'x' is none of"),
                                 (["--to=csv", "--measure=peak", "-o", "y", "x.trace"], "--measure is for --to=collapsed, not for --to=csv")):
            status, out, err = self.run_tool("export", *arguments)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1), arguments)
            self.assertIn(words, err)
        self.assertEqual(self.read(self.path("x.trace")), t.sample())

    def test_full_device(self):
        self.write("x.trace", t.sample())
        status, _, err = self.run_tool("export", "--to=csv", "-o", "/dev/full", "x.trace")
        self.assertEqual((status, err), (1, "gpumem: cannot write '/dev/full'\n"))
        self.assertEqual(self.run_tool("export", "--to=csv", "-o", "no/such/folder", "x.trace")[0], 1)
        for closed, line in ((">/dev/full", "cannot write 'standard output'"), (">&-", "cannot write 'standard output': Bad file descriptor")):
            done = subprocess.run(["/bin/sh", "-c", f'exec "$0" export --to=csv -o - x.trace {closed}', self.GPUMEM], cwd=self.folder.name,
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (1, f"gpumem: {line}\n"))

    def test_a_database_takes_the_place_of_files_alone(self):
        self.export("sqlite")
        os.mkfifo(self.path("pipe"))
        self.assertEqual(self.run_tool("export", "--to=sqlite", "-o", "pipe", "x.trace")[0], 1)
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.path("pipe")).st_mode))

    def test_a_line_of_heaptrack_is_not_ended_by_a_name(self):
        records = t.module(0x10000, 0x10000, 0x20000, "/opt/a\n+ 0\nb") + t.site(1, [0x10100])
        events = t.chunk(t.event(1, 1, "alloc", "cuMemAlloc", 0x1000, 64, site=1))
        path = self.export("heaptrack", "y", t.header() + t.chunk(records, kind=2) + events)
        self.assertEqual(self.read(path).count(b"\n+ 0\n"), 1)

    def test_trims_are_instants(self):
        trim = t.event(1, 1500, "trim", "cuMemAlloc", 0, 64, reason=t.OUT_OF_MEMORY)
        path = self.export("perfetto", "y", t.header() + t.chunk(trim))
        ((time, instant),) = [(packet["time"], event) for packet in perfetto(self.read(path)) for event in packet["events"] if event["type"] == 3]
        self.assertEqual((instant["name"], time, instant["notes"][0][1]), ("cuMemAlloc trim", 1500, 64))


if __name__ == "__main__":
    unittest.main()
