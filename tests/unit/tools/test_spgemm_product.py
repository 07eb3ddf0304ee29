#!/usr/bin/env python3
"""spgemm_product.py: its tables, means, bounds and verdicts from invented figures; runs with a driver and rivals that behave in every way."""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[3] / "tools" / "bench"
sys.path.insert(0, str(BENCH))

import common  # noqa: E402
import drawing  # noqa: E402
import spgemm_product  # noqa: E402
from spgemm_product_results import MIB, Products, aims, text  # noqa: E402


def figure(ms, trim=None, peak=None, nnz=1000):
    return {"ms_min": ms * 0.9, "ms_median": ms, "ms_max": ms * 1.1, "nnz_c": nnz, **({"trim_ms": trim} if trim else {}), **({"peak_bytes": peak} if peak else {})}


def sizes(a, b=None):
    return {"a": a, "b": b, "rows": 99, "columns": 99, "stored": 500, "b_rows": 99, "b_columns": 99, "b_stored": 500, "products": 2500, "touched_rows": 89, "touched": 400}


ABOUT = {"commit": "abc1234", "gpu": "Test GPU", "driver": "580.1", "precision": "double", "quick": True, "runs": "5 after 2", "bandwidth": 4.8,
         "rivals": {"other": "other {a.mtx}"}, "left_out": ["web|cusparse:alg3"], "products": {"cage14": sizes("gen:cage14"), "A P": sizes("gen:x", "y:1")},
         "figures": {"cage14|ours cold": figure(8.0, 2.0, peak=20 * MIB), "cage14|ours warm": figure(5.0), "cage14|cusparse:alg1": figure(38.0, 2.0, peak=4 * MIB),
                     "cage14|cusparse:alg2": {"error": "spgemm: out of device memory: x", "kind": "memory"}, "cage14|other": figure(20.0),
                     "A P|ours cold": figure(4.0, peak=1000), "A P|cusparse:alg1": figure(10.0), "A P|other": {"error": "other: took longer than 15 s", "kind": "time"}}}


class Tables(unittest.TestCase):
    def setUp(self):
        self.products = Products(ABOUT)
        self.text = text(ABOUT, self.products)

    def row(self, title, name):
        return next(line for line in self.text.split(title)[1].splitlines() if line.startswith(name))[len(name):].split()

    def test_times_and_means(self):
        # Freeing is inside; the best of the others; words in place of times.
        self.assertEqual(self.row("temporaries freed", "cage14"), ["10", "5", "-", "40", "memory", "-", "20", "2.00", "other"])
        self.assertEqual(self.row("temporaries freed", "A P"), ["4", "-", "-", "10", "-", "-", "time", "2.50", "cusparse:alg1"])
        # 4 and 2.5 x by alg1; 2 x by the rival, on one product; 2 and 2.5 x by the best.
        self.assertEqual(self.row("temporaries freed", "geometric mean, over ours cold"), ["1.00", "0.50", "-", "3.16", "-", "-", "2.00", "2.24"])

    def test_bytes_that_must_move(self):
        # 4 (n + 1) + 12 m: A once, C once; of B the 89 rows of 400 entries that A refers to.
        a, c, touched = 4 * 100 + 12 * 500, 4 * 100 + 12 * 1000, 4 * 90 + 12 * 400
        self.assertEqual(self.products.must_move("cage14"), a + c)
        self.assertEqual(self.products.must_move("A P"), a + touched + c)
        self.assertAlmostEqual(self.products.share("A P", "ours cold"), 100 * (a + touched + c) / 4.8e12 / 4e-3)
        self.assertIsNone(Products({**ABOUT, "bandwidth": None}).share("A P", "ours cold"))
        single = Products({**ABOUT, "precision": "float"})
        self.assertEqual(single.must_move("cage14"), 4 * 100 + 8 * 500 + 4 * 100 + 8 * 1000)

    def test_memory(self):
        a, c = 4 * 100 + 12 * 500, 4 * 100 + 12 * 1000
        self.assertEqual(self.products.memory("cage14", "ours cold"), (a + 20 * MIB, a + c + 24 * 99))
        self.assertEqual(self.products.memory("A P", "ours cold"), (2 * a + 1000, 2 * a + c + 24 * 99))  # B is another matrix
        self.assertIsNone(self.products.memory("cage14", "ours warm"))

    def test_aims(self):
        found = dict(aims(self.products))
        self.assertEqual(found["cage14, ours cold: 10 ms (<= 7)"], False)
        self.assertEqual(found["best other / ours cold, geometric mean of 2: 2.24 (>= 2.5)"], False)
        self.assertEqual(found["best other / ours cold, least: 2.00, cage14 (>= 1.2)"], True)
        self.assertEqual(found["cuSPARSE alg1 / ours cold, geometric mean of 2: 3.16 (>= 6)"], False)
        self.assertIn("1 of 2; beyond: cage14", next(name for name in found if name.startswith("peak memory")))
        self.assertIn("MISSED: cage14, ours cold", self.text)
        self.assertIn("Without a time\ncage14, cusparse:alg2: spgemm: out of device memory: x", self.text)
        self.assertIn("Left out, no time (1): web|cusparse:alg3", self.text)

    def test_pictures_of_an_earlier_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "run.json")
            path.write_text(json.dumps(ABOUT))
            done = subprocess.run([drawing.python(), str(BENCH / "spgemm_product.py"), "--plot", str(path)], capture_output=True, text=True, env=common.environment())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(self.text, done.stdout)
            if "no matplotlib here" in done.stderr:
                self.skipTest("no matplotlib here")
            for name in ("time", "memory", "bound"):
                self.assertEqual(path.with_name(f"run-{name}.png").read_bytes()[:4], b"\x89PNG", name)


DRIVER = f"#!{sys.executable} -SE" + """
import sys, time
given = sys.argv[1:]
value = lambda name, other: given[given.index(name) + 1] if name in given else other
mode, matrix, other = value("--mode", ""), value("--matrix", ""), value("--b", "")
if mode == "cusparse:alg2":
    sys.exit("spgemm: out of device memory: buffer")
if mode == "cusparse:alg3":
    time.sleep(60)
print(f"matrix={matrix} rows=5 columns=5 nonzeros=9 stored=9")
for path in (matrix, other):
    if path and not path.startswith("gen:"):
        open(path).read()
print(f"runs={value('--runs', 0)} warmup={value('--warmup', 0)} ms_min=1.000 ms_median=2.000 ms_max=3.000 trim_ms=0.500")
print("nnz_c=90 entries=90 efficiency=100.00% peak_bytes=1048576")
"""
MATRIX = f"#!{sys.executable} -SE" + """
import sys
if sys.argv[1] == "write":
    open(sys.argv[3], "w").write(sys.argv[2])
else:
    print("rows=10 columns=10 stored=20 b_rows=10 b_columns=10 b_stored=20 products=95 touched_rows=10 touched=20")
"""
# Reads its operands, as the protocol says, and prints one line for each run.
RIVAL = """
import os, sys
what, a, b, *more = sys.argv[1:]
if what == "hangs":
    os.system("sleep 100; true")
if what == "crashes":
    sys.exit("illegal address")
print("reading", open(a).read(), open(b).read(), *more)
if what == "silent":
    sys.exit()
for ms in (4, 2, 3):
    print(f"ms={ms}.5 nnz={91 if what == 'wrong' else 90} peak=2097152")
"""


class Run(unittest.TestCase):
    def bench(self, folder, *arguments):
        build = pathlib.Path(folder, "build")
        (build / "spgemm").mkdir(parents=True)
        (build / "build.ninja").write_text("build spgemm/spgemm: phony\nbuild spgemm/spgemm_matrix: phony\n")
        for name, program in (("spgemm", DRIVER), ("spgemm_matrix", MATRIX)):
            (build / "spgemm" / name).write_text(program)
            (build / "spgemm" / name).chmod(0o755)
        rival = pathlib.Path(folder, "rival.py")
        rival.write_text(RIVAL)
        out = pathlib.Path(folder, "run.json")
        given = [part.replace("RIVAL", f"{sys.executable} -SE {rival}") for part in arguments]  # -SE: starts within the limit
        return out, subprocess.run([sys.executable, str(BENCH / "spgemm_product.py"), "--build", str(build), "--quick", "--out", str(out), "--commit", "abc",
                                    "--limit", "2", *given], capture_output=True, text=True, timeout=100)

    def test_every_way_to_end(self):
        """A contender that hangs, crashes, says nothing or finds another C has a word in the table; the others have their times."""
        with tempfile.TemporaryDirectory() as folder:
            before = time.monotonic()
            out, done = self.bench(folder, "--matrices", "atmosmodl,A P", "--rival", "good=RIVAL good", "--rival", "hung=RIVAL hangs", "--rival", "broken=RIVAL crashes",
                                   "--rival", "silent=RIVAL silent", "--rival", "wrong=RIVAL wrong", "--rival", "none=/no/such/program")
            self.assertLess(time.monotonic() - before, 60)
            self.assertEqual(done.returncode, 0, done.stderr)
            document = json.loads(out.read_text())
            for product in ("atmosmodl", "A P"):
                words = {name: document["figures"][f"{product}|{name}"].get("kind") for name in
                         ("good", "hung", "broken", "silent", "wrong", "none", "cusparse:alg1", "cusparse:alg2", "cusparse:alg3", "ours same")}
                self.assertEqual(words, {"good": None, "hung": "time", "broken": "failed", "silent": "failed", "wrong": "wrong", "none": "failed", "cusparse:alg1": None,
                                         "cusparse:alg2": "memory", "cusparse:alg3": "time", "ours same": None}, product)
            good = document["figures"]["A P|good"]
            self.assertEqual([good[name] for name in ("ms_min", "ms_median", "ms_max", "peak_bytes", "runs")], [2.5, 3.5, 4.5, 2097152, 3])
            self.assertIn("broken: broken: illegal address".replace("broken: broken", "rival"), done.stdout.replace(pathlib.Path(sys.executable).name, "rival"))
            self.assertTrue(out.with_suffix(".txt").exists())

    def test_what_a_rival_is_given(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "args.py")
            script.write_text("import sys, pathlib\nprint('ms=1.0 nnz=90')\n"
                              f"open({folder + '/log'!r}, 'a').write(' '.join(pathlib.Path(a).suffix + '=' + pathlib.Path(a).read_text() if pathlib.Path(a).is_file() else a "
                              "for a in sys.argv[1:]) + '\\n')\n")
            _, done = self.bench(folder, "--matrices", "twin-pwtk", "--product", "x=uniform:5:6:7,web:8",
                                 "--rival", f"one={sys.executable} {script} {{a.csr}} {{b.csr}} {{runs}} {{warmup}} {{precision}}", "--rival", f"two={sys.executable} {script}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(pathlib.Path(folder, "log").read_text().splitlines(),
                             [".csr=gen:twin-pwtk .csr=gen:twin-pwtk 5 2 double", ".mtx=gen:twin-pwtk .mtx=gen:twin-pwtk",
                              ".csr=uniform:5:6:7 .csr=web:8 5 2 double", ".mtx=uniform:5:6:7 .mtx=web:8"])

    def test_wrong_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            for arguments, words in ((["--rival", "x"], "--rival 'x' is not NAME=COMMAND"), (["--rival", "ours cold=a"], "there is another ours cold"),
                                     (["--product", "=a"], "--product '=a' is not NAME=A[,B]"), (["--matrices", "no"], "no such product: no; there are atmosmodl")):
                _, done = self.bench(pathlib.Path(folder, words[:9]), *arguments)
                self.assertEqual((done.returncode, words in done.stderr), (2, True), done.stderr)

    def test_no_time(self):
        with tempfile.TemporaryDirectory() as folder:
            out, done = self.bench(folder, "--matrices", "atmosmodl", "--budget", "1")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("atmosmodl|ours cold", json.loads(out.read_text())["left_out"])


class Names(unittest.TestCase):
    def test_kinds_of_products(self):
        """Sixteen kinds in a quick run."""
        quick = [name for name in spgemm_product.PRODUCTS if name not in spgemm_product.LARGE]
        self.assertGreaterEqual(len(quick), 16)


if __name__ == "__main__":
    unittest.main()
