#!/usr/bin/env python3
"""memhc.py: points, ratios, verdicts, tables, sentences and the picture, from the rows of an invented program."""

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
import memhc_points  # noqa: E402
import memhc_report  # noqa: E402

GFLOPS = {"unified_naive": 50, "unified_reorg": 50, "unified_once": 100, "unified_kept": 300, "explicit_naive": 80, "explicit_reorg": 160, "explicit_reorg_sync": 240,
          "full": 700, "resident": 900, "zgemm": 1000}
# Prints the row of a point as examples/hadron does; refuses a tensor of 384 with pinned memory, fails under MRU, and knows no f0d4.
PROGRAM = f"""#!{sys.executable} -SE
import sys
GFLOPS = {GFLOPS}
words = [word for word in sys.argv[1:] if word != "--check"]
given = dict(zip(words[::2], words[1::2]))
variant, policy = given["--variant"], given.get("--eviction", "")
if given.get("--host") == "pinned":
    sys.exit("hadron: refused: too much")
if policy == "mru":
    sys.exit("hadron: broken")
gflops = GFLOPS[variant] / (1.25 if policy == "lru" else 2 if given.get("--on-demand-sync") == "off" else 1)
row = dict(variant=variant, tensor=given.get("--tensor", "256"), scale_pct=given.get("--scale", "100"), contractions="10", gflops=gflops, gflop=gflops * 2, seconds="2",
           seconds_min="1.9", seconds_max="2.1", allocate_s="0.5", transfer_s="0.25", evict_s="" if variant != "full" else "0.125", allocations="7",
           evictions="10" if policy == "preprotected_lru" else "12", h2d_bytes="1e9", d2h_bytes="0", check="right")
print(",".join(row))
print(",".join(map(str, row.values())))
"""


def run(folder, *arguments):
    folder = pathlib.Path(folder)
    program = folder / "build" / "examples" / "hadron_static"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    out = folder / "memhc.json"
    done = subprocess.run([drawing.python(), str(BENCH / "memhc.py"), "--build", str(folder / "build"), "--out", str(out), "--commit", "abc1234",
                           *arguments], capture_output=True, text=True, env=common.environment())
    return done, json.loads(out.read_text()) if out.exists() else None, out


class Bench(unittest.TestCase):
    def test_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            done, made, out = run(folder, "--quick", "--figures", "10,tables 1-3")
            text = out.with_suffix(".txt").read_text()
            drawn = out.with_suffix(".png").exists()
            self.assertEqual(done.returncode, 1, done.stderr)  # the policy that fails
        self.assertEqual(made["failed"], {"check of mru": "hadron_static: hadron: broken"})
        self.assertEqual(len(made["checked"]), 15)
        self.assertEqual((made["commit"], made["quick"], made["simulated"]), ("abc1234", True, False))
        self.assertIn("met: Pre-Protected LRU over LRU in GFLOP/s, mean (paper 1.21 x, 1.12 to 1.36): 1.25 x (> 1 x)", text)
        self.assertIn("met: rows in which Pre-Protected LRU evicts less than LRU, share: 1.00 x (= 1 x)", text)
        self.assertIn("| 384 | 1000.0 | 700.0 | 70.0 | 14.3 | 50.0 | 7.1 |", text)
        self.assertIn("| 1 | 8 | 50 | 1/2 | lru_uniform | 12 | 8 | 10 | 560.0 +- 5 % | 700.0 +- 5 % | 1.25 | 1.36 |", text)
        self.assertIn("Figure 8: what each part gains: not measured", text)
        self.assertTrue(drawn or "no matplotlib here" in done.stderr)

    def test_what_is_refused_is_left_out_and_no_failure_of_the_bench(self):
        with tempfile.TemporaryDirectory() as folder:
            _, made, _ = run(folder, "--quick", "--figures", "7")
        self.assertIn("vectors|192|16|1/1|full, pinned", made["left_out"])
        self.assertIn("vectors|192|16|1/1|unified_kept", made["points"])

    def test_a_run_goes_on_where_another_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            _, first, out = run(folder, "--quick", "--figures", "10")
            point = first["points"]["vectors|128|16|1/1|zgemm"]
            point["gflops"] = "1234"
            out.write_text(json.dumps({**first, "commit": "0123456"}))
            _, made, _ = run(folder, "--quick", "--figures", "10,tables 1-3", "--resume", str(out))
            done, _, _ = run(folder, "--resume", str(out))
        self.assertEqual(made["commit"], "0123456 and abc1234")
        self.assertEqual(made["points"]["vectors|128|16|1/1|zgemm"]["gflops"], "1234")
        self.assertGreater(len(made["points"]), len(first["points"]))
        self.assertIn("quick is True, here it is False", done.stderr)

    def test_no_time(self):
        with tempfile.TemporaryDirectory() as folder:
            _, made, _ = run(folder, "--minutes", "0.0001")
        self.assertFalse(made["points"])
        self.assertEqual(set(made["left_out"].values()), {"no time"})

    def test_unknown_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            done, made, _ = run(folder, "--figures", "12")
        self.assertEqual((done.returncode, made), (2, None))
        self.assertIn("--figures 12: there are 10, 11, 7, 8, slow link, table 5, tables 1-3", done.stderr)


class Report(unittest.TestCase):
    def points(self, **more):
        rows = {f"vectors|{tensor}|{size}|{rate}|{variant}": {"gflops": str(gflops), "seconds": "1", "seconds_min": "1", "seconds_max": "1"}
                for tensor in (192, 384) for size, rate in memhc_report.by_size(tensor) + memhc_report.by_rate(tensor)
                for variant, gflops in {**GFLOPS, **more}.items()}
        return memhc_report.Points(rows)

    def verdicts(self, **more):
        return {verdict.name.split(",")[-1].strip(): verdict for verdict in memhc_report.verdicts(self.points(**more))}

    def test_verdicts(self):
        good = self.verdicts()
        self.assertEqual([(round(verdict.value, 2), verdict.met) for verdict in good.values()], [(7, True), (7, True)])
        bad = self.verdicts(full=210)
        self.assertEqual([verdict.met for verdict in bad.values()], [False, False])

    def test_sentences(self):
        said = "\n".join(memhc_report.story(self.points()))
        for words in ("tensor 192, by vector size: 7.00 to 7.00 x, geometric mean 7.00 x (paper 2.17 to 10.73 x)",
                      "explicit_reorg 2.00 x, explicit_reorg_sync 1.50 x, full 2.92 x", "managed memory that each contraction makes anew, tensor 192, by vector size: 14.00 to 14.00 x",
                      "Unified memory reaches 14 to 14 % of the full version",
                      "The contraction reaches 70 to 70 % of zgemm alone"):
            self.assertIn(words, said)
        self.assertNotIn("Missed", said)
        self.assertIn("Missed: full over unified memory, least of all points: 2.00 x", "\n".join(memhc_report.story(self.points(full=200))))

    def test_nothing_measured(self):
        points = memhc_report.Points({})
        self.assertEqual((list(memhc_report.story(points)), [make(points) for _, make in memhc_report.PARTS]), ([], [""] * 7))

    def test_points(self):
        """Every point once; fewer vectors where nodes would not fit the host."""
        for scale in (memhc_points.FULL_RUN, memhc_points.QUICK, memhc_points.TINY):
            points = memhc_points.points(scale)
            self.assertEqual(len({point.name for point in points}), len(points))
            self.assertEqual({figure for point in points for figure in point.figures}, {"7", "8", "10", "11", "tables 1-3", "slow link", "table 5"})
        named = {point.name: point for point in memhc_points.points(memhc_points.QUICK)}
        self.assertEqual(named["vectors|192|16|1/1|full"].arguments["vectors"], 100)
        most = named["vectors|384|16|0/1|full"].arguments["vectors"] * 16 * 16 * 16 * 384 * 384
        self.assertLess(most, memhc_points.QUICK.host)


if __name__ == "__main__":
    unittest.main()
