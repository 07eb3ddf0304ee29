"""What tools/bench makes of the words of its programs: figures, ratios within a round, verdicts, table, JSON, picture, short traces."""
import gzip
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
BENCH = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(BENCH))
import common
import contenders
import drawing
import guard
import picture
import record
import targets
from results import Results

MIB = 1 << 20
# Output of tools/bench/alloc and its companions: contender, then one text a round.
SAMPLE = {
    "native": ["""pair:4096 1500 1300.0 1340.0 1420.0 live=4096 reserved=2097152
pair:1048576 400 48000.0 50000.0 52000.0 live=1048576 reserved=2097152
pair:1073741824 4 2400000.0 2410000.0 2420000.0 live=1073741824 reserved=1073741824
kernel-long 2000 4240.0 4250.0 4300.0
loop-long 2000 62000.0 63300.0 65000.0 live=1048576 reserved=2097152
free-behind-1ms 1 1005000.0 1005400.0 1006000.0 busy=0
torch-step 20 8000000.0 8050000.0 8100000.0
replay:training 4000 30000.0 31000.0 32000.0 live=67108864 reserved=69206016
alloc_async+free_async 1 600.0 600.0 600.0""", "pair:1048576 400 58000.0 60000.0 62000.0"],
    "PyTorch": ["""pair:1048576 4000 300.0 310.0 320.0 live=1048576 reserved=20971520
torch-step 20 2600000.0 2680000.0 2700000.0
replay:training 4000 3000.0 3100.0 3200.0 live=67108864 reserved=104857600"""],
    "cache fence 1": ["pair:1048576 4000 280.0 290.0 500.0 live=1048576 reserved=33554432"],
    "cache": ["""pair:4096 4000 150.0 160.0 170.0 live=4096 reserved=2097152
pair:1048576 4000 120.0 125.0 130.0 live=1048576 reserved=33554432
pair:1073741824 4000 500.0 560.0 600.0 live=1073741824 reserved=2147483648
kernel-long 2000 4200.0 4240.0 4250.0
loop-long 2000 4300.0 4350.0 4400.0 live=1048576 reserved=67108864
free-behind-1ms 1 150.0 155.0 160.0 busy=11
threads-same:1 4000 160.0 170.0 180.0
threads-same:16 500 600.0 612.0 640.0
torch-step 20 2200000.0 2210000.0 2220000.0
replay:training 4000 2900.0 3000.0 3100.0 live=67108864 reserved=157286400""",
              "pair:1048576 4000 140.0 150.0 160.0"],
    "observe": ["alloc_async+free_async 1 690.0 690.0 690.0"],
}
ABOUT = {"commit": "abc1234", "gpu": "Test GPU", "driver": "580.1", "rounds": 2}


def sample():
    results = Results()
    for name, rounds in SAMPLE.items():
        for turn, text in enumerate(rounds):
            for line in text.splitlines():
                results.add(name, turn, common.Measured(line))
    return results


class Figures(unittest.TestCase):
    def test_a_line(self):
        line = common.Measured("pair:512 400 1.5 2.0 9.25 live=512 reserved=2097152")
        self.assertEqual((line.name, line.repetitions, line.min, line.median, line.max), ("pair:512", 400, 1.5, 2.0, 9.25))
        self.assertEqual(line.more, {"live": 512, "reserved": 2097152})
        self.assertRaises(ValueError, common.Measured, "half a line")

    def test_rounds_are_joined(self):
        results = sample()
        figure = results.figures["native", "pair:1048576"]
        self.assertEqual((figure["min"], results.median("native", "pair:1048576"), figure["max"]), (48000, 55000, 62000))
        self.assertEqual(results.more("native", "pair:1048576", "reserved"), 2 * MIB)
        self.assertIsNone(results.median("native", "pair:7"))

    def test_ratios_are_taken_within_a_round(self):
        results = sample()  # rounds: 125 / 50000 and 150 / 60000; PyTorch has the first round only
        self.assertAlmostEqual(results.ratio("cache", "pair:1048576", "native"), 0.0025)
        self.assertAlmostEqual(results.ratio("cache", "pair:1048576", "PyTorch"), 125 / 310)
        self.assertIsNone(results.ratio("cache", "thrust-sort", "native"))
        self.assertEqual(results.added("observe", "alloc_async+free_async", "native"), 90)

    def test_json_gives_the_same_back(self):
        results = sample()
        again = Results.from_json(json.loads(json.dumps(results.to_json())))
        self.assertEqual(targets.table(ABOUT, again), targets.table(ABOUT, results))


class Verdicts(unittest.TestCase):
    def verdict(self, start, contender):
        found = [one for one in targets.verdicts(sample()) if one.target.startswith(start) and one.contender == contender]
        self.assertEqual(len(found), 1, start)
        return found[0]

    def test_met_and_missed(self):
        for start, contender, words in [
                ("pair 1 MiB, idle, a fence", "cache fence 1", "met"),
                ("pair 1 MiB, idle, amortised", "cache", "missed by 38 %"),
                ("pair 1 MiB, idle, amortised", "auto", "not measured"),
                ("malloc + kernel + free", "cache", "met"),  # 4350 / 4240 = 1.026
                ("free behind", "cache", "met"),
                ("PyTorch step", "cache", "met"),
                ("pair in 16 threads", "cache", "met"),
                ("added to a hooked call", "observe", "met"),
                ("added to a hooked call", "observe, trace", "not measured"),
                ("pair loop, every size", "cache", "missed by 704.0 MiB"),  # 1 GiB: 2048 - (1280 + 64)
                ("pair loop, 64 MiB and more", "cache", "missed by 60 %"),
                ("trace training", "cache", "missed by 6.0 MiB")]:  # 150 - (80 + 64)
            self.assertEqual(self.verdict(start, contender).words(), words, (start, contender))

    def test_notes_name_the_peers_and_the_memory(self):
        note = self.verdict("pair 1 MiB, idle, a fence", "cache fence 1").note
        self.assertEqual(note, "reserved 32.0 MiB for 1.0 MiB live; native 55 us, PyTorch 310 ns")
        self.assertIn("still running after the free in 11 samples", self.verdict("free behind", "cache").note)

    def test_every_target_is_for_somebody_measured(self):
        self.assertEqual({one.contender for one in targets.verdicts(Results())} - set(contenders.ORDER), {"observe, trace"})

    def test_table(self):
        text = targets.table(ABOUT, sample())
        self.assertIn("commit abc1234, GPU Test GPU, driver 580.1; 2 rounds", text)
        line = next(line for line in text.splitlines() if line.startswith("  cache ") and "33" not in line and "32.0 MiB" in line)
        self.assertEqual(line.split(), "cache 120 ns / 138 ns / 160 ns 0.003 x reserved 32.0 MiB for 1.0 MiB live".split())


class Picture(unittest.TestCase):
    def test_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.json"
            path.write_text(json.dumps({**ABOUT, "results": sample().to_json()}))
            done = subprocess.run([drawing.python(), "-B", str(BENCH / "alloc.py"), "--plot", str(path)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.startswith(targets.table(ABOUT, sample())))
            if "no matplotlib here" in done.stderr:
                self.skipTest("no matplotlib here")
            self.assertEqual(path.with_suffix(".png").read_bytes()[:4], b"\x89PNG")
            self.assertIn("<svg", path.with_suffix(".svg").read_text())

    def test_contenders_look_different(self):
        self.assertEqual(len({picture.style(name) for name in contenders.ORDER}), len(contenders.ORDER))


class Traces(unittest.TestCase):
    RAW = ("seq,time_ns,action,call,address,bytes,device,stream,thread,duration_ns,kind\n"
           "# gpumem 1 start_ns 5\n"
           "2,1500,free,cuMemFree,0x1000,512,0,,7,20,native\n"
           "1,1200,alloc,cuMemAlloc,0x1000,512,0,,7,30,native\n"
           "3,1600,drop,,0x0,0,0,,7,0,native\n")

    def test_a_trace_keeps_the_published_columns_in_order(self):
        self.assertEqual(record.shorten(io.StringIO(self.RAW)),
                         ["seq,time_ns,action,call,address,bytes,device,stream,thread",
                          "1,0,alloc,cuMemAlloc,0x1000,512,0,,7", "2,300,free,cuMemFree,0x1000,512,0,,7"])

    def test_unpack(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            (place / "one.csv.gz").write_bytes(gzip.compress(b"seq\n"))
            found = record.unpack(place, place)
            self.assertEqual({name: path.read_text() for name, path in found.items()}, {"one": "seq\n"})

    def test_wrong_usage_is_one_line(self):
        """Before anything is built or measured: a long run must not fail at its end."""
        for bench, words, line in (("alloc", ["--out", "none/x.json"], "argument --out: 'none/x.json': its folder is not there, or not writable"),
                                   ("growth", ["--out", "."], "argument --out: '.' is not the name of a file"),
                                   ("overhead", ["--rounds", "-1"], "argument --rounds: '-1' is not a number from 1 on"),
                                   ("free", ["--rounds", "x"], "argument --rounds: 'x' is not a number from 1 on"),
                                   ("figures", [], "the following arguments are required: documents"),
                                   ("memhc", ["--fast"], "unrecognized arguments: --fast")):
            done = subprocess.run([sys.executable, str(BENCH / f"{bench}.py"), *words], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"{bench}.py: {line}; --help says more\n"))
        for bench, words, line in (("overhead", ["--build", "none"], "none/tools/bench/calls: No such file or directory"),
                                   ("figures", ["none.md"], "none.md: No such file or directory")):
            done = subprocess.run([sys.executable, str(BENCH / f"{bench}.py"), *words], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertTrue(done.stderr.endswith(line + "\n") and done.stderr.count("\n") == 1, done.stderr)

    @unittest.skipUnless(len(sys.argv) > 1 and os.path.exists(sys.argv[-1]), "nvcc is not here: no replay program")
    def test_replay_refuses_what_is_no_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.csv"
            for text, words in (("seq,bytes\n1,2\n", "not a CSV trace of gpumem"),
                                (self.RAW.split("#")[0], "no allocation of device memory in it")):
                path.write_text(text)
                done = subprocess.run([REPLAY, f"x={path}"], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (1, f"replay: {path}: {words}\n"))


class Guard(unittest.TestCase):
    ROWS = """ok       guard planted none 0.4 s, nothing said; memcheck, 0.7 s: nothing
ok       guard planted behind_byte 0.2 s; memcheck, 0.7 s: Invalid __global__ write of size 1 bytes
ok       guard planted never_written 0.2 s, nothing said; memcheck, 0.4 s: nothing; initcheck, 0.5 s: Uninitialized __global__ memory read
ok       guard blocking
"""

    def test_rows_of_the_suite(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows.txt"
            path.write_text(self.ROWS)
            errors = guard.suite(str(path))
        self.assertEqual([(one["error"], one["seconds"], one["memcheck_seconds"]) for one in errors],
                         [("behind_byte", 0.2, 0.7), ("never_written", 0.2, 0.4)])
        self.assertEqual(list(guard.error_rows(errors)),
                         [["a kernel writes 1 byte behind the end", "at the free", "in the kernel"],
                          ["a kernel reads memory that was never written", "no; poison shows it", "no; initcheck: in the kernel"]])
        self.assertEqual(guard.error_words(errors), ["at the free: 1 byte was written right behind the end of a block of 1000 bytes"])

    def test_each_planted_error_has_a_row(self):
        sys.path.insert(0, str(BENCH.parents[1] / "tests" / "preload"))
        from run_guard import FOUND
        self.assertEqual(set(FOUND) - set(guard.ERRORS), {"none", "read_last", "stale_member", "graph_updated", "ready_by_event", "ready_by_flag"})
        for name in guard.ERRORS:
            self.assertTrue(guard.when(guard.SILENT.get(name) or guard.words(FOUND[name]), guard.GPUMEM), name)

    def test_costs(self):
        rows = [{"row": "pair:4096", "contender": name, "values": values} for name, values in (("native", [100, 200]), ("guard all", [150, 250]))]
        self.assertEqual([ratios for *_, ratios in guard.costs(rows)], [[1, 1], [1.5, 1.25]])
        self.assertEqual(guard.on_to_off([2, 2, 4], [3, 3]), "1.250 ± 0.250 x")

    def test_a_file_that_is_not_published_is_named(self):
        failed = tempfile.NamedTemporaryFile("w", suffix=".txt")
        self.addCleanup(failed.close)
        failed.write(self.ROWS + "FAILED   guard planted freed_twice freed_twice: nobody says it\n")
        failed.flush()
        for text in ("nowhere", str(BENCH / "README.md"), failed.name):
            done = subprocess.run([sys.executable, str(BENCH / "guard.py"), "--suite", text], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(f"'{text}'", done.stderr)


REPLAY = sys.argv[-1]
if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
