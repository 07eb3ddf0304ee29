#!/usr/bin/env python3
"""growth.py: its table, verdicts and picture from figures of a made-up run."""

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
import growth  # noqa: E402
from results import Results  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
LINE = "{row} {steps} {ns} {ns} {ns} copied={copied} peak={peak} size=8589934592 release=1000 first={first} last={last} kernel={kernel} alone=1000"
ABOUT = {"commit": "abc1234", "gpu": "Test GPU", "driver": "580.1", "rounds": 1}


def sample():
    results = Results()

    def add(way, row, ns, steps=8, copied=0, peak=8 * GIB, first=100, last=100, kernel=1010):
        text = LINE.format(row=row, steps=steps, ns=ns, copied=copied, peak=peak, first=first, last=last, kernel=kernel)
        results.add(way, 0, common.Measured(text))

    add(growth.MALLOC, "grow:double", 7_400_000, copied=8 * GIB, peak=12 * GIB)
    add(growth.REGION, "grow:double", 600_000)
    add(growth.EXACT, "grow:double", 800_000, peak=9 * GIB)
    add(growth.DRIVER, "grow:double", 570_000)
    add(growth.MOVE, "grow:double", 3_700_000)
    add(growth.EXACT, f"grow:{64 * MIB}", 4_500_000, 128, first=100, last=110)
    add(growth.REGION, f"grow:{64 * MIB}", 4_500_000, 128)
    add(growth.REGION, f"grow:{2 * MIB}", 13_500_000, 4065)
    add(growth.REGION, f"beside:{64 * MIB}", 5_000_000, 128)
    add(growth.REGION, f"resize:{512 * MIB}", 50_000)
    return results


class Growth(unittest.TestCase):
    def test_moved_share(self):
        words = "gpumem: growth by hand 4 times, 1000 bytes copied for it, at most 453 at once"
        moved = words + "; 3 times pages moved instead, 750 bytes not copied, 1 copies put off and made"
        self.assertEqual([growth.moved_share(text) for text in ("", words, moved)], [0, 0, 0.75])
        self.assertEqual(growth.moved_share(moved.replace("1000", "0")), 0)

    def verdict(self, target, way):
        return next(one for one in growth.verdicts(sample()) if one.target.startswith(target) and one.contender == way)

    def test_verdicts(self):
        for target, way, words in [
                ("doubling: time against cudaMalloc", growth.REGION, "met"),  # 0.081
                ("doubling: time against cudaMalloc", growth.EXACT, "missed by 8 %"),
                ("doubling: time against the driver's", growth.EXACT, "missed by 22 %"),
                ("doubling: peak", growth.REGION, "met"),
                ("doubling: peak", growth.EXACT, "missed by 12 %"),
                ("64 MiB steps: time against cudaMalloc", growth.REGION, "not measured"),
                ("64 MiB steps: the last quarter's", growth.EXACT, "met"),
                ("8 GiB by 2 MiB", growth.REGION, "missed by 50 %"),
                ("a memory-bound kernel", growth.REGION, "met"),
                ("doubling: bytes copied", growth.MOVE, "met"),
                ("doubling: unchanged program", growth.MOVE, "met")]:
            self.assertEqual(self.verdict(target, way).words(), words, (target, way))

    def test_an_empty_run(self):
        self.assertEqual({one.words() for one in growth.verdicts(Results())}, {"not measured"})

    def test_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.json"
            path.write_text(json.dumps({**ABOUT, "results": sample().to_json()}))
            done = subprocess.run([drawing.python(), "-B", str(BENCH / "growth.py"), "--plot", str(path)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.startswith(growth.table(ABOUT, sample())))
            if "no matplotlib here" in done.stderr:
                self.skipTest("no matplotlib here")
            self.assertEqual(path.with_suffix(".png").read_bytes()[:4], b"\x89PNG")

    def test_every_way_has_a_colour_of_its_own(self):
        self.assertEqual(len({growth.COLOURS[way] for way in growth.WAYS}), len(growth.WAYS))


if __name__ == "__main__":
    unittest.main()
