#!/usr/bin/env python3
"""The experiments of MemHC (6.2 to 6.5) on a card: contractions under unified memory, under explicit memory, and with residency.

usage: memhc.py [--build DIR] [--quick] [--minutes N] [--figures NAME,...] [--resume FILE.json] [--commit HASH] [--out FILE.json]
       memhc.py --plot FILE.json
       memhc.py --sim [--build DIR] [--out FILE.json]

Runs examples/hadron_static of DIR (default build), which is built where it is not there; else examples/hadron. First it compares every
version with the host at a small size. Then it measures one point after the other, the most important first: figure 7 (tensors 192 and
384), tables 1 to 3 (Pre-Protected LRU and LRU), figure 8 (each part of the full version), figures 10 and 11, table 5. --figures takes
some of 7, 8, 10, 11, "tables 1-3", "slow link", "table 5".

100 vectors and ten loops, as in the paper; versions without reuse run 40 vectors and three loops, since their GFLOP/s do not depend on the
number of vectors. --quick: three loops, and two of 12 vectors. Where the nodes do not fit the host there are fewer vectors; each point says
how many. Nothing is started after --minutes (default 25, quick 5); FILE.json is updated after every point.

--resume takes the points of an earlier run on such a card, and measures only the others; both commits are named then.

Oversubscription is of a budget of the program's own: the card is never full. The program refuses managed memory that would not fit.

Writes FILE.json (default memhc.json), FILE.txt with the tables and verdicts, FILE.svg and FILE.png. --plot does so from an earlier run.
--sim tries the script on the simulated CUDA with tiny sizes: times mean nothing. Ends with 77 without a GPU.
"""

import csv
import json
import os
import pathlib
import signal
import sys
import time

import common
import memhc_picture
import memhc_points
import memhc_report
from picture import say_pictures

CHECKED = ["unified_naive", "unified_reorg", "unified_once", "unified_kept", "explicit_naive", "explicit_reorg", "explicit_reorg_sync", "full", "resident"]


def cublas_folders():
    """Where Python packages hold cuBLAS: the toolkit may lack it."""
    return [str(found.parent) for folder in sys.path for found in sorted(pathlib.Path(folder or ".").glob("nvidia/*/lib/libcublas.so.1*"))]


class Cut(Exception):
    """The run must end."""


class Bench:
    def __init__(self, options):
        self.options, self.begin = options, time.monotonic()
        self.scale = memhc_points.TINY if options.sim else memhc_points.QUICK if options.quick else memhc_points.FULL_RUN
        self.program = program_of(options)
        # On the simulated CUDA the threads compute: none may spin beside them.
        self.environment = common.environment(settings={"OMP_WAIT_POLICY": "passive"} if options.sim else (),
                                              cuda=options.build / "tools" / "sim" if options.sim else None)
        if not options.sim:
            folders = [os.environ.get("LD_LIBRARY_PATH"), *cublas_folders()]
            self.environment["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
        self.points, self.failed, self.left_out, self.checked = {}, {}, {}, []
        self.commits, self.taken = [options.commit or common.commit()], 0  # seconds of the run that is resumed
        self.card = ("simulated CUDA", "none") if options.sim else common.card()

    def left(self):
        return 60 * self.options.minutes - (time.monotonic() - self.begin)

    def hadron(self, arguments, limit):
        """The row that the program prints."""
        command = [self.program]
        for key, value in arguments.items():
            command += [f"--{key}"] if value is True else [f"--{key}", value]
        command += ["--products", "own"] if self.scale.own else []
        return next(csv.DictReader(common.run(command, self.environment, limit).splitlines()))

    def check(self):
        """Every version and policy is right before it is timed."""
        small = {"tensor": 8, "vector-size": 4, "vectors": 3, "check": True, "results": "all"}
        cases = {variant: {"variant": variant, **small} for variant in CHECKED}
        cases.update({policy: {"variant": "full", "function": "a1_rhopi", "tensor": 8, "vector-size": 4, "budget": 24 * 16 * 16 * 64,
                               "eviction": policy, "check": True, "results": "all"} for policy in memhc_points.POLICIES})
        for name, arguments in cases.items():
            try:
                self.checked.append(name if self.hadron(arguments, 60)["check"] == "right" else f"{name}: not compared")
            except common.Failed as failure:
                self.failed[f"check of {name}"] = str(failure)

    def resume(self, path):
        """Takes the points of an earlier run of this kind."""
        before, now = common.earlier(path), self.document()
        for what in ("gpu", "driver", "quick", "loops"):
            if before.get(what) != now[what]:
                raise common.Failed(f"{path}: {what} is {before.get(what)}, here it is {now[what]}: such runs do not go together")
        self.points, self.failed, self.taken = before["points"], before["failed"], before["seconds"]
        self.commits = list(dict.fromkeys([*before["commit"].split(" and "), *self.commits]))

    def take(self, point):
        if point.name in self.points:
            return
        if self.left() < 2:
            self.left_out[point.name] = "no time"
            return
        try:
            self.points[point.name] = self.hadron(point.arguments, max(5, min(600, self.left() + 20)))
        except common.Failed as failure:
            refused = "refused" in str(failure) or "took longer than" in str(failure)
            (self.left_out if refused else self.failed)[point.name] = str(failure)
        self.save()

    def run(self):
        self.check()
        wanted = set(self.options.figures or [])
        for point in memhc_points.points(self.scale):
            if not wanted or wanted & set(point.figures):
                self.take(point)
                print(f"{time.monotonic() - self.begin:6.1f} s  {point.name}  "
                      f"{self.points.get(point.name, {}).get('gflops', 'left out')}", flush=True)

    def document(self):
        gpu, driver = self.card
        return {"commit": " and ".join(self.commits), "gpu": gpu, "driver": driver, "quick": self.options.quick,
                "simulated": self.options.sim, "cores": os.cpu_count(), "loops": self.scale.loops, "slow": self.scale.slow,
                "tensors": self.scale.tensors, "steps": self.scale.steps, "seconds": round(self.taken + time.monotonic() - self.begin, 1), "checked": self.checked,
                "points": self.points, "left_out": self.left_out, "failed": self.failed}

    def save(self):
        new = self.options.out.with_suffix(".new")
        new.write_text(json.dumps(self.document(), indent=1) + "\n")
        os.replace(new, self.options.out)


def program_of(options):
    """A prebuilt program; built only where there is none, since the machine of the card may lack what a build needs."""
    names = ["hadron"] if options.sim else ["hadron_static", "hadron"]
    for name in names:
        if (options.build / "examples" / name).exists():
            return options.build / "examples" / name
    common.build(options.build, f"examples/{names[0]}", shim=False)
    return options.build / "examples" / names[0]


def show(document, out):
    made = memhc_report.text(document)
    out.with_suffix(".txt").write_text(made + "\n")
    print(made)
    say_pictures("memhc.py", out, lambda: memhc_picture.draw(document, out))


def arguments():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--figures", type=lambda names: names.split(","))
    parser.add_argument("--out", type=common.output, default=pathlib.Path("memhc.json"))
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--resume", type=pathlib.Path)
    parser.add_argument("--commit", help="where git does not know it")
    options = parser.parse_args()
    known = sorted({figure for point in memhc_points.points(memhc_points.TINY) for figure in point.figures})
    unknown = [name for name in options.figures or [] if name not in known]
    if unknown:
        parser.error(f"--figures {', '.join(unknown)}: there are {', '.join(known)}")
    options.build, options.out = options.build.resolve(), options.out.resolve()
    options.minutes = options.minutes or (5 if options.quick else 25)
    return options


def main():
    options = arguments()
    if options.plot:
        return show(common.earlier(options.plot), options.plot)
    bench = Bench(options)
    if options.resume:
        bench.resume(options.resume)

    def cut(*_):
        raise Cut

    signal.signal(signal.SIGTERM, cut)
    try:
        bench.run()
    except (Cut, KeyboardInterrupt):
        bench.left_out["the rest"] = "the run was cut short"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    bench.save()
    show(bench.document(), options.out)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    common.end(main, "--plot FILE.json draws an earlier run, --sim tries the script")
