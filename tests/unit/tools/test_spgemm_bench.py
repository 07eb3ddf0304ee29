#!/usr/bin/env python3
"""spgemm.py: parsing, tables and verdicts, from the figures of an invented run."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[3] / "tools" / "bench"
sys.path.insert(0, str(BENCH))

import common  # noqa: E402
import drawing  # noqa: E402
import spgemm  # noqa: E402
import spgemm_results  # noqa: E402
import spgemm_warps  # noqa: E402

ABOUT = {"commit": "abc1234", "gpu": "Test GPU", "driver": "580.1", "precision": "double", "runs": "3 after 2", "limited": ["twin-pwtk, 9 MiB: precise: 1 ms"],
         "warps": {"twin-pwtk|thesis|8": [{"warps": 10.0, "percent": 15.6, "ns": 300.0}, {"warps": 2.0, "percent": 3.1, "ns": 100.0}],
                   "twin-pwtk|thesis|64": [{"warps": 30.0, "percent": 46.9, "ns": 100.0}]}}
SAID = """matrix=gen:cage:5 rows=37 columns=37 nonzeros=233 stored=233
mode=rounds precision=double layout=csr kernel=hash vector=vmm size_per_row=21 (auto)
runs=3 warmup=2 ms_min=0.500 ms_median=0.750 ms_max=1.000 estimate_ms=0.100 (13.3%) grow_ms=0.050 (6.7%)
nnz_c=653 entries=777 efficiency=84.04% peak_bytes=123456 rounds=1
sampled_nnz_c=650 off=-0.46% sampled_ms=0.031
cohen_nnz_c=700 off=+7.20% cohen_ms=0.042
"""
HEAD = '"ID","Process ID","Kernel Name","sm__warps_active.avg.per_cycle_active","sm__warps_active.avg.pct_of_peak_sustained_active","gpu__time_duration.sum"'


def figure(ms, efficiency=100.0, **more):
    return {"ms_median": ms, "efficiency": efficiency, "estimate_ms": ms / 4, "nnz_c": 1000, "entries": 5000, "peak_bytes": 1 << 20, "rounds": 2, **more}


def sample():
    """Every matrix of the bench but the long one. Rounds is faster than precise on every second one; index 4 has no size in the range; on the
    first one auto is the fastest."""
    figures = {}
    names = [name for name in spgemm.MATRICES if name not in spgemm.LONG]
    for i, name in enumerate(names):
        figures[f"{name}|hash|precise"] = figure(10.0)
        figures[f"{name}|hash|upper-bound"] = figure(12.0, 20.0)
        figures[f"{name}|hash|rounds 8 vmm"] = figure(1.0, 60.0)  # fast, but wasteful
        figures[f"{name}|hash|rounds 32 vmm"] = figure(8.0 if i % 2 == 0 else 11.0, 50.0 if i == 4 else 90.0, grow_ms=0.1)
        figures[f"{name}|hash|rounds 32 copy"] = figure(16.0, 90.0, grow_ms=4.0)
    figures["atmosmodl|hash|rounds auto vmm"] = figure(7.5, 91.0, size_per_row=25, sampled_nnz_c=1010, sampled_ms=0.2, cohen_nnz_c=900, cohen_ms=0.4)
    figures["cage14|hash|upper-bound"] = {"error": "out of device memory: values"}
    figures["twin-pwtk|thesis|precise"] = figure(400.0)
    figures["twin-pwtk|thesis|rounds 64 vmm"] = figure(300.0, 85.0)
    return names, figures


class Spgemm(unittest.TestCase):
    def row(self, text, title, name):
        part = text.split(title)[1]
        return next(line.split() for line in part.splitlines() if line.startswith(name))

    def setUp(self):
        self.names, self.figures = sample()
        self.methods = spgemm_results.Methods(self.figures)
        self.text = spgemm_results.text(ABOUT, self.methods)

    def test_words_of_the_driver(self):
        found = spgemm.figures_of(SAID)
        for name, value in {"ms_median": 0.75, "estimate_ms": 0.1, "grow_ms": 0.05, "nnz_c": 653, "efficiency": 84.04, "rounds": 1, "sampled_nnz_c": 650,
                            "sampled_ms": 0.031, "cohen_nnz_c": 700, "cohen_ms": 0.042}.items():
            self.assertEqual(found.get(name), value, name)

    def test_claim_of_every_matrix(self):
        self.assertEqual(len(self.names), 11)
        for i, name in enumerate(self.names):
            words = " ".join(self.row(self.text, "Rounds beside precise (5.1), kernel hash", name))
            expected = ("25 91.0 7.500 10.000 1.33 won" if i == 0 else
                        "- - - 10.000 - lost: no size in the range" if i == 4 else
                        "32 90.0 8.000 10.000 1.25 won" if i % 2 == 0 else "32 90.0 11.000 10.000 0.91 lost")
            self.assertTrue(words.startswith(f"{name} {expected}"), words)
        self.assertIn("kernel hash: rounds of 70 to 99 % efficiency beat precise on 4 of 10 (thesis: 17 of 20); rmat-18: won", self.text)
        self.assertIn(f"  lost: {self.names[1]}, size 32: 11.000 ms to 10.000", self.text)
        self.assertIn(f"  lost: {self.names[4]}, no size is in that range", self.text)
        self.assertEqual(self.text.count("\n  lost: "), 6)
        self.assertIn("kernel thesis: rounds of 70 to 99 % efficiency beat precise on 1 of 1", self.text)

    def test_claim_with_trim(self):
        self.assertNotIn("with the return of unused slots", self.text)
        self.figures["atmosmodl|hash|rounds auto vmm"]["trim_ms"] = 3.0  # the size of 32 is slower, but gives nothing back
        self.figures[f"{self.names[2]}|hash|rounds 32 vmm"]["trim_ms"] = 2.5
        methods = spgemm_results.Methods(self.figures)
        self.assertEqual(methods.best("atmosmodl", took=spgemm_results.with_trim)[0], 32)
        self.assertIn("beat precise on 4 of 10 (thesis: 17 of 20); rmat-18: won\n  with the return of unused slots: 3 of 10",
                      spgemm_results.text(ABOUT, methods))

    def test_efficiency_in_the_range(self):
        for percent, expected in [(69.9, False), (70.0, True), (99.49, True), (99.5, False), (100.0, False)]:
            self.assertEqual(spgemm_results.claimed(percent), expected, percent)
        self.figures["cage14|hash|rounds auto vmm"] = figure(5.0, 99.9, size_per_row=41)
        self.assertEqual(spgemm_results.Methods(self.figures).best("cage14")[0], 32)

    def test_in_short(self):
        said = spgemm_results.brief({**ABOUT, "failed": {"a|hash|precise": "why"}, "left_out": [f"method {i}" for i in range(30)], "no_warps": None}, self.methods)
        lines = said.splitlines()
        self.assertLessEqual(len(lines), 60)
        row = next(line.split() for line in lines if line.startswith("atmosmodl"))
        self.assertEqual(row[:7] + row[10:15], ["atmosmodl", "12.00", "10.00", "25", "25", "91.0/2", "7.50", "1.33", "won", "25:", "7.50", "-"])
        self.assertIn("left out (30): method 0, method 1", said)
        self.assertIn("failed: a|hash|precise: why", said)
        self.assertIn("active warps, twin-pwtk, kernel thesis, size_per_row 64", said)

    def test_tables_beside_the_thesis(self):
        # pwtk: 225728 of 449094 us; its nnz(C), slots and factor.
        self.assertEqual(self.row(self.text, "Table 5.1: what counting first takes, kernel hash", "twin-pwtk"),
                         ["twin-pwtk", "2.500", "10.000", "25.0", "225.73", "449.09", "50.3"])
        self.assertEqual(self.row(self.text, "Table 5.2", "twin-pwtk"), ["twin-pwtk", "1000", "5000", "5.000", "32772236", "626054402", "19.103"])
        self.assertEqual(self.row(self.text, "Table 5.2", "rmat-18"), ["rmat-18", "1000", "5000", "5.000", "-", "-", "-"])
        self.assertIn("out of device memory: values", " ".join(self.row(self.text, "Table 5.2", "cage14")))
        for matrix in self.names:
            if not matrix.startswith("rmat"):
                self.assertIn(matrix.replace("twin-", ""), spgemm_results.thesis())

    def test_estimates_and_vectors(self):
        self.assertEqual(self.row(self.text, "Estimates of nnz(C) on the GPU", "atmosmodl"), ["atmosmodl", "+1.00", "0.200", "-10.00", "0.400", "7.500"])
        self.assertIn("0.10 4.00 2.00x", " ".join(self.row(self.text, "Figure 5.3", "atmosmodl")))

    def test_active_warps(self):
        row = self.row(self.text, "Figure 5.2", "twin-pwtk, kernel thesis, size_per_row 8")
        self.assertEqual(row[-5:], ["2", "8.00", "2.00", "10.00", "12.5"])  # over time: (10 x 300 + 2 x 100) / 400
        without = spgemm_results.text({**ABOUT, "warps": {}, "no_warps": "ncu is not installed"}, self.methods)
        self.assertIn("Figure 5.2: skipped: ncu is not installed", without)

    def test_reports_of_ncu(self):
        report = "\n".join(["==PROF== Connected to process 7", HEAD, '"","","","warp","%","ns"', '"0","7","dot_rows","12.5","19.53","1,200"',
                            '"1","7","dot_rows","3","4.69","900"', "==PROF== Disconnected"])
        self.assertEqual(spgemm_warps.calls(report), [{"warps": 12.5, "percent": 19.53, "ns": 1200.0}, {"warps": 3.0, "percent": 4.69, "ns": 900.0}])
        for text, words in [("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "no permission"), ("", "no figures"),
                            ("==WARNING== No kernels were profiled.", "No kernels"), ("==ERROR== Failed to load", "ncu: Failed to load"),
                            (report.replace("gpu__time_duration.sum", "other"), "gpu__time_duration.sum"),
                            (report.replace('"12.5"', '"n/a"'), "n/a")]:
            with self.assertRaisesRegex(spgemm_warps.Unavailable, words):
                spgemm_warps.calls(text)

    def test_an_earlier_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "run.json")
            few = {name: figure for name, figure in self.figures.items() if name.split("|")[0] in ("atmosmodl", "twin-pwtk", "cage14")}
            text = spgemm_results.text(ABOUT, spgemm_results.Methods(few))
            path.write_text(json.dumps({**ABOUT, "figures": few}))
            done = subprocess.run([drawing.python(), str(BENCH / "spgemm.py"), "--plot", str(path)], capture_output=True, text=True,
                                  env=common.environment())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(text, done.stdout)
            if "no matplotlib here" in done.stderr:
                self.skipTest("no matplotlib here")
            for name in ("sizes", "efficiency", "thesis-sizes", "thesis-efficiency", "vectors", "warps"):
                self.assertEqual(path.with_name(f"run-{name}.png").read_bytes()[:4], b"\x89PNG", name)
                self.assertIn("<svg", path.with_name(f"run-{name}.svg").read_text())
            self.assertFalse(path.with_name("run-peers.png").exists())  # no figure of cuSPARSE is in the sample


LABELS = """
import sys
sys.path.insert(0, sys.argv[1])
try:
    from picture import place_labels, pyplot
    plt = pyplot()
except Exception:
    sys.exit(77)
from matplotlib.text import Text
figure, axes = plt.subplots(figsize=(3, 2))
points = [(1 + i % 4 * 0.02, 50 + i // 4 * 2, str(100 + i)) for i in range(12)] + [(1.5, 90, "far"), (1.5, 90, "same place")]
axes.plot([x for x, *_ in points], [y for _, y, _ in points], "o")
axes.set(xlim=(0.9, 2), ylim=(0, 100))
figure.canvas.draw()
labels = place_labels(axes, points)
boxes = [Text.get_window_extent(label) for label in labels]
assert len(labels) >= 12, len(labels)
assert len(axes.texts) == len(labels), "a label without a place was left behind"
assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i]), "labels overlap"
for x, y, _ in points:
    at = axes.transData.transform((x, y))
    assert not any(box.contains(*at) for box in boxes), "a label covers a point"
"""


class Labels(unittest.TestCase):
    def test_no_label_covers_another(self):
        done = subprocess.run([drawing.python(), "-c", LABELS, str(BENCH)], capture_output=True, text=True)
        if done.returncode == 77:
            self.skipTest("no matplotlib here")
        self.assertEqual(done.returncode, 0, done.stderr)


DRIVER = f"#!{sys.executable} -SE" + """
import sys
given = sys.argv[1:]
value = lambda name, other: given[given.index(name) + 1] if name in given else other
if "--model" in given:
    print("size_per_row=32 efficiency=80.00% rounds=2")
    sys.exit()
mode = value("--mode", "")
if mode == "upper-bound":
    sys.exit("spgemm: out of device memory: values")
size = value("--size-per-row", "25")
print(f"mode={mode} size_per_row={size}")
print(f"runs={value('--runs', 25)} warmup={value('--warmup', 25)}")
print("ms_median=2.000 estimate_ms=1.000 (50%)" if mode == "precise" else "ms_median=1.500 estimate_ms=0.100 (7%) grow_ms=0.100 (7%) compact_ms=0.100 (7%)")
print(f"nnz_c=90 entries=100 efficiency={99.90 if size == '25' and mode == 'rounds' else 90.00}% peak_bytes=1048576 rounds=1")
"""


class Run(unittest.TestCase):
    """The bench with a driver that prints what its arguments request."""

    def bench(self, folder, *arguments):
        build = pathlib.Path(folder, "build")
        (build / "spgemm").mkdir(parents=True)
        (build / "build.ninja").write_text("build spgemm/spgemm: phony\n")
        (build / "spgemm" / "spgemm").write_text(DRIVER)
        (build / "spgemm" / "spgemm").chmod(0o755)
        out = pathlib.Path(folder, "run.json")
        return out, [sys.executable, str(BENCH / "spgemm.py"), "--build", str(build), "--quick", "--out", str(out), "--commit", "abc", *arguments]

    def test_what_is_in_the_range(self):
        with tempfile.TemporaryDirectory() as folder:
            out, command = self.bench(folder, "--matrices", "atmosmodl,twin-pwtk,rmat-18")
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            figures = json.loads(out.read_text())["figures"]
            # The size that was chosen wastes too little for the claim: a larger one was tried.
            self.assertIn("atmosmodl|hash|rounds 16 vmm", figures)
            self.assertIn("atmosmodl|thesis|rounds 16 vmm", figures)
            self.assertIn("error", figures["atmosmodl|hash|upper-bound"])
            self.assertIn("kernel hash: rounds of 70 to 99 % efficiency beat precise on 2 of 2 (thesis: 17 of 20); rmat-18: won", done.stdout)
            self.assertIn("kernel thesis: rounds of 70 to 99 % efficiency beat precise on 2 of 2", done.stdout)
            self.assertIn("twin-pwtk, 1 MiB: upper-bound: spgemm: spgemm: out of device memory: values", done.stdout)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bcsstk17.mtx")
            path.write_text("what the driver reads\n")
            out, command = self.bench(folder, "--matrix", str(path))
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual({name.split("|")[0] for name in json.loads(out.read_text())["figures"]}, {"bcsstk17"})
            self.assertIn("kernel hash: rounds of 70 to 99 % efficiency beat precise on 1 of 1", done.stdout)
            named = pathlib.Path(folder, "cage14.mtx")
            named.write_text("")
            for wrong, words in [(path.with_name("none.mtx"), "none.mtx: no such file"), (named, "another matrix called cage14")]:
                done = subprocess.run([*command[:-1], str(wrong)], capture_output=True, text=True, timeout=100)
                self.assertEqual((done.returncode, words in done.stderr), (2, True), done.stderr)

    def test_cut_short(self):
        with tempfile.TemporaryDirectory() as folder:
            out, command = self.bench(folder)
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
                for line in running.stdout:
                    if line.startswith("twin-pwtk, kernel hash"):
                        running.terminate()
                        break
                said = running.stdout.read()
                self.assertEqual(running.wait(timeout=60), 0)
            self.assertIn("the rest: the run was cut short", said)
            self.assertIn("beat precise on 2 of", said)
            self.assertIn("twin-pwtk|hash|precise", json.loads(out.read_text())["figures"])
            self.assertTrue(out.with_suffix(".txt").exists())

    def test_a_run_is_filled(self):
        """A quick run becomes a full one: sizes that it left out and figures of fewer runs are measured, nothing is measured twice."""
        with tempfile.TemporaryDirectory() as folder:
            out, command = self.bench(folder, "--matrices", "atmosmodl", "--sizes", "16,48")
            subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
            first = json.loads(out.read_text())["figures"]
            self.assertIn("atmosmodl|hash|rounds 48 vmm", first)
            self.assertNotIn("atmosmodl|hash|rounds 32 vmm", first)
            full = [part for part in command if part != "--quick"][:-2] + ["--fill", str(out), "--commit", "def"]
            done = subprocess.run(full, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            document = json.loads(out.read_text())
            for size in spgemm_results.SIZES:
                for vector in ("vmm", "copy"):
                    self.assertEqual(document["figures"][f"atmosmodl|hash|rounds {size} {vector}"]["runs"], 25)
            self.assertEqual([one["commit"] for one in document["parts"]], ["abc", "def"])
            self.assertIn("parts: commit abc, driver None; commit def, driver None", out.with_suffix(".txt").read_text())
            again = subprocess.run(full, capture_output=True, text=True, timeout=100)
            wanted = [name for name, one in document["figures"].items() if one.get("runs") != 3]
            self.assertIn(f"{len(wanted)} figures of {out} are kept", again.stdout)
            wrong = subprocess.run([*full, "--precision", "float"], capture_output=True, text=True, timeout=100)
            self.assertEqual((wrong.returncode, "precision double; this run has float" in wrong.stderr), (2, True), wrong.stderr)

    def test_no_time(self):
        with tempfile.TemporaryDirectory() as folder:
            out, command = self.bench(folder, "--matrices", "atmosmodl,cage15", "--budget", "1")
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("atmosmodl|hash|precise: no time", json.loads(out.read_text())["left_out"])
            self.assertIn("left out (", done.stdout)


if __name__ == "__main__":
    unittest.main()
