#!/usr/bin/env python3
"""The larger examples on the simulated CUDA, natively and under each policy: same results, right results, wrong usage refused.

usage: run_examples.py --examples DIR --cuda DIR --shim FILE --bench FILE CASE
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "preload"))

from place import Failure, check  # noqa: E402
from every_policy import POLICIES  # noqa: E402

SINGLE = ("add", "multiply", "multiply_plain", "rotate", "conjugate", "rescale")
RATIOS = (0, 25, 50, 75, 80, 85, 90, 95)


class Place:
    def __init__(self, options):
        self.options = options

    def run(self, name, *arguments, status=0, policy=None, **settings):
        """Standard output, and standard error where a failure is expected."""
        environ = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_")}
        environ["LD_LIBRARY_PATH"] = self.options.cuda
        environ.update(settings)
        if policy:
            environ.update(LD_PRELOAD=str(self.options.shim), GPUMEM_POLICY=policy)
        done = subprocess.run([self.options.examples / name, *map(str, arguments)], env=environ, capture_output=True, text=True)
        check(done.returncode == status, f"{name} {arguments} {policy}: status {done.returncode}: {done.stdout[-200:]}{done.stderr[-300:]}")
        return done.stdout if status == 0 else done.stderr

    def with_json(self, name, *arguments, **more):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "out.json"
            text = self.run(name, *arguments, "--json", file, **more)
            return text, json.loads(file.read_text())


def he_ops_right(place):
    """Device and host agree for every operation, and what the operations are for holds after decryption."""
    text, made = place.with_json("he_ops", "--set", "small,medium", "--operation", "all", "--iterations", 2, "--check")
    check([one["set"] for one in made["sets"]] == ["small", "medium"], f"sets: {made['sets']}")
    for one in made["sets"]:
        check([operation["name"] for operation in one["operations"]] == list(SINGLE), f"operations of {one['set']}")
        for operation in one["operations"]:
            check(operation["checked"] and len(operation["host_ms"]) == len(operation["device_ms"]) == 2, f"{operation}")
            check(operation["lasting"] == 1, f"{operation['name']}: results are new objects")
            needs = {"multiply": 10, "rotate": 10, "conjugate": 10, "rescale": 1}.get(operation["name"], 0)
            check(operation["temporaries"] >= needs, f"{operation['name']}: temporaries within the operation")
    check(text.count("  right\n") == 2 * len(SINGLE) and "WRONG" not in text, text)


def he_ops_sequences(place):
    text, made = place.with_json("he_ops", "--operation", "bootstrap,resnet", "--layers", 2, "--iterations", 2, "--check")
    check(text.count("  right\n") == 2, text)
    objects = made["objects"]
    everything, temporary = objects["temporary"] + objects["lasting"], objects["temporary"]
    check(objects["freed"] == everything, f"all is freed: {objects}")
    # Results within a sequence are lasting by kind, yet freed in it: what stays for the whole run is less than a tenth. A third
    # time each ran for its result.
    stays = everything - sum(3 * (one["temporaries"] + one["lasting"]) for one in made["sets"][0]["operations"])
    check(temporary > everything / 2 and stays < everything / 10, f"{stays} objects stay: {objects}")


def he_ops_allocators(place):
    """Neither the allocator in the source nor a policy above the driver changes a bit of the results."""
    arguments = ("--operation", "all,bootstrap", "--iterations", 1)
    expected = place.run("he_ops", *arguments)
    for allocator in ("async", "managed", "hybrid"):
        for advice in ("off", "on"):
            got = place.run("he_ops", *arguments, "--allocator", allocator, "--advice", advice)
            check(got == expected, f"{allocator}, advice {advice}: {got}")
    for policy in POLICIES:
        check(place.run("he_ops", *arguments, policy=policy) == expected, f"policy {policy}")


def he_ops_limit(place):
    """Data beyond a small card: the rest lies in host memory and the results stay what they are."""
    arguments = ("--operation", "multiply,rotate", "--iterations", 1, "--footprint", 96 << 20)
    expected = place.run("he_ops", *arguments)
    for policy in POLICIES:
        got = place.run("he_ops", *arguments, policy=policy, GPUMEM_LIMIT="64M", GPUMEM_OOM="trim,host,fail")
        check(got == expected, f"policy {policy}: {got}")
    check("out of memory" in place.run("he_ops", *arguments, policy="observe", status=1, GPUMEM_LIMIT="64M", GPUMEM_OOM="fail"),
          "without the host tier the memory does not suffice")


def chunks_right(place):
    text, made = place.with_json("chunks", "--footprint", 2 << 20, "--block", 65536, "--iterations", 2, "--rounds", 2, "--check")
    runs = made["runs"]
    check([(run["operation"], run["ratio"]) for run in runs] ==
          [(operation, ratio) for operation in ("add", "butterfly") for _ in range(2) for ratio in RATIOS], "runs")
    for run in runs:
        members = 2 if run["operation"] == "add" else 8
        check(run["groups"] == run["checked"] == (2 << 20) // 4096 // members and run["wrong"] == 0, f"{run}")
        check(run["async_bytes"] == 32 * run["ratio"] // 100 * 65536 and len(run["kernel_ms"]) == 2, f"{run}")
    check(len(text.splitlines()) == len(runs), text)


def chunks_policies(place):
    arguments = ("--footprint", 2 << 20, "--block", 16384, "--ratio", "25,95", "--iterations", 1, "--check", "--rest", "malloc")
    expected = place.run("chunks", *arguments)
    for policy in POLICIES:
        check(place.run("chunks", *arguments, policy=policy) == expected, f"policy {policy}")
    card = ("--card", 1 << 20)
    expected = place.run("chunks", *arguments, *card)
    check("983040 bytes asynchronous of 2097152" in expected, expected)
    for policy in POLICIES:
        got = place.run("chunks", *arguments, *card, policy=policy, GPUMEM_LIMIT="1M", GPUMEM_OOM="trim,host,fail")
        check(got == expected, f"policy {policy} beyond the card: {got}")


def refusals(place):
    """Managed memory that could not stay on the card, and wrong usage."""
    for name, arguments in {"chunks": ("--ratio", 0, "--footprint", 900 << 20),
                            "he_ops": ("--allocator", "managed", "--footprint", 900 << 20, "--iterations", 1)}.items():
        words = place.run(name, *arguments, status=1, SIMCUDA_MEMORY="1G")
        check("refused" in words and "managed" in words, f"{name}: {words}")
    for name, wrong in {"he_ops": (("--set", "tiny"), ("--operation", "divide"), ("--allocator", "best"), ("--advice", "yes"),
                                   ("--iterations", "x"), ("more",)),
                        "chunks": (("--ratio", "101"), ("--ratio", "1,,2"), ("--operation", "sort"), ("--block", "5000"),
                                   ("--rest", "host"), ("--footprint", "65536"), ("more",))}.items():
        for arguments in wrong:
            check("usage: " in place.run(name, *arguments, status=2), f"{name} {arguments}")
        for word in ("more", "--more", "--iterations"):
            check(place.run(name, word, status=2).startswith(f"{name}: {word} is no option"), f"{name} {word}")
        check("--json" in place.run(name, "--help"), f"{name} --help")


def simulated_settings(place):
    """A variable of the simulated CUDA that is not understood is named, and what is accepted; the default serves."""
    for name, value, accepted in (("DEVICES", "x", "0 to 8"), ("DEVICES", "-1", "0 to 8"), ("MEMORY", "1X", "also with K, M or G"), ("VERSION", "new", "0 to 99999"),
                                  ("STRICT", "2", "0 to 1"), ("FREE", "late", "context|device|locked"), ("LATENCY", "h", "none|h200"), ("ANSWER", "1s", "0 to"),
                                  ("POOL_RANGE", "x", "block|segment"), ("FENCE", "x", "true|blind"), ("PEERS", "x", "all|none"), ("LOG", "none/x", "a file"),
                                  ("STREAMS", "x", "immediate|manual|random:SEED"), ("FAIL", "x", "NAME:N"), ("NEEDS", "x", "NAME:BYTES")):
        environ = {**os.environ, "LD_LIBRARY_PATH": place.options.cuda, f"SIMCUDA_{name}": value}
        done = subprocess.run([place.options.examples / "temporaries"], env=environ, capture_output=True, text=True)
        line = f"simulated CUDA: SIMCUDA_{name}={value} is ignored; accepted: "
        check(done.returncode == 0 and done.stderr.startswith(line) and accepted in done.stderr and done.stderr.count("\n") == 1, f"{name}={value}: {done}")
    for memory, fits in (("8K", False), ("1G", True)):
        environ = {**os.environ, "LD_LIBRARY_PATH": place.options.cuda, "SIMCUDA_MEMORY": memory}
        done = subprocess.run([place.options.examples / "temporaries"], env=environ, capture_output=True, text=True)
        check((done.returncode == 0) == fits, f"{memory}: {done}")


def driver_calls(place, calls):
    """How often each function of the driver is called, with so many calls in the steady state."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        place.run("workspace_trsm", "--calls", calls, SIMCUDA_LOG=str(log))
        return collections.Counter(line.split()[1] for line in log.read_text().splitlines())


def frontiers_bench(place):
    """Searches whose lists grow in every way are right, copying is counted, and growing in place copies nothing."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "frontiers.json"
        command = [sys.executable, place.options.bench.with_name("frontiers.py"), "--build", place.options.examples.parent, "--cuda", place.options.cuda,
                   "--vertices", "200000", "--rounds", "1", "--budget", "200", "--out", out]
        done = subprocess.run(command, capture_output=True, text=True)
        check(done.returncode == 0, f"frontiers.py: status {done.returncode}: {done.stdout[-300:]}{done.stderr[-600:]}")
        made, text = json.loads(out.read_text()), out.with_suffix(".txt").read_text()
    check(not made["failed"] and not made["left_out"], f"failed {made['failed']}, left out {made['left_out']}")
    check(len(made["runs"]) == 8 and all(len(found) == 6 for found in made["runs"].values()), f"runs: {list(made['runs'])}")
    for program in ("bfs_frontier", "sssp"):
        runs = {way: made["runs"][f"{program}|200000|{way}"] for way in ("in place", "copy", "copy, move", "copy, cache")}
        check(all(0 <= one["growing_ms"] <= one["ms"] for found in runs.values() for one in found), "growth is a part of a search")
        check(all(one["copied"] == 0 and one["growths"] > 0 for one in runs["in place"]), f"{program}: nothing is copied in place")
    copied = made["runs"]["bfs_frontier|200000|copy"][0]
    check(copied["copied"] > 0 and copied["growths"] > made["runs"]["bfs_frontier|200000|in place"][0]["growths"], f"copying: {copied}")
    check(all(one["peak_bytes"] > 0 for way in ("in place", "copy", "copy, cache") for one in made["runs"][f"bfs_frontier|200000|{way}"]), "memory that is kept counts")
    check("breadth-first search      200000" in text and "copy, cache" in text, text)


def resources(place):
    """The same function works with memory of several kinds, and says which property is missing where it does not."""
    for text in ("limit(2GiB,async)", "cache(managed)", "track(fallback(async,host-numa))", "pinned"):
        for policy in (None, "observe"):
            said = place.run("resources", text, policy=policy)
            check(said.startswith(f"statistics({text})\n100 allocations, "), said)
    check(place.run("resources") == place.run("resources", "limit(2GiB,async)"), "the default")
    check("is not device-accessible" in place.run("resources", "new-delete", status=1), "host memory")
    check("is not stream-ordered" in place.run("resources", "vmm", status=1), "memory without stream order")
    check("nonsense" in place.run("resources", "log(nonsense)", status=1), "a wrong text")


def layers(place):
    """What is announced saves transfers under the default policy, and prefetches leave none to the passes' own acquires."""
    found = {}
    for how in ("", "announce", "prefetch"):
        said = place.run("layers", *([how] if how else []))
        found[how] = {name: int(count) for count, name in re.findall(r"(\d+) (transfers|waits)", said)}
        check("right" in said and len(found[how]) == 2, said)
    check(found[""]["transfers"] == 320 and found["announce"]["transfers"] <= 120, f"{found}")
    check(found["prefetch"]["transfers"] <= 140 and found["prefetch"]["waits"] < found["announce"]["waits"] / 4, f"{found}")


def workspace_trsm(place):
    """Right for every size of memory; nothing is allocated, freed or waited for in the steady state."""
    expected = place.run("workspace_trsm")
    check(expected.count(", right\n") == 6 and "B is as it was" in expected and expected.endswith("ok workspace_trsm\n"), expected)
    for policy in POLICIES:
        check(place.run("workspace_trsm", policy=policy) == expected, f"policy {policy}")
    for m, n in ((32, 2), (33, 100), (64, 5), (300, 2)):
        place.run("workspace_trsm", "--m", m, "--n", n)
    for settings in ({"SIMCUDA_STREAMS": "random:5"}, {"SIMCUDA_STRICT": "1"}, {"SIMCUDA_HIDE": "cuMemAllocAsync"}):
        check(place.run("workspace_trsm", **settings) == expected, f"{settings}")
    for wrong in (("--m", "31"), ("--n", "1"), ("--n", "x"), ("--calls", "0"), ("more",)):
        said = place.run("workspace_trsm", *wrong, status=2)
        check(said.startswith(f"workspace_trsm: '{wrong[0]} {wrong[1] if wrong[1:] else ''}' is wrong; accepted: --m from 32"), said)


def workspace_trsm_trace(place):
    """Between the two marks the trace has no event, and more calls there add only work to what the driver is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.csv"
        place.run("workspace_trsm", policy="observe", GPUMEM_TRACE=str(trace))
        actions = [line.split(",")[2] for line in trace.read_text().splitlines() if line[:1].isdigit()]
    marks = [at for at, action in enumerate(actions) if action == "mark"]
    check(len(marks) == 2 and marks[1] == marks[0] + 1, f"between the marks: {actions}")
    check("alloc" in actions[:marks[0]] and "free" in actions[marks[1]:], f"{actions}")
    few, many = driver_calls(place, 3), driver_calls(place, 13)
    check(few["cuMemAllocAsync"] and few["cuStreamSynchronize"], f"{few}")
    more = {name for name in many if many[name] != few[name]}
    check("cuLaunchKernel" in more and more <= {"cuLaunchKernel", "cuMemcpy2DAsync_v2", "cuMemcpyDtoDAsync_v2", "cuCtxGetCurrent"}, f"{more}")


def hybrid_bench(place):
    """The bench runs to its end and every scheme has figures; what the times are does not matter here."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "hybrid.json"
        done = subprocess.run([sys.executable, place.options.bench, "--sim", "--build", place.options.examples.parent, "--out", out],
                              capture_output=True, text=True)
        check(done.returncode == 0, f"hybrid.py: status {done.returncode}: {done.stdout[-300:]}{done.stderr[-600:]}")
        made, text = json.loads(out.read_text()), out.with_suffix(".md").read_text()
        traces = [path.name for path in (out.parent / "hybrid-traces").iterdir()]
    check(made["simulated"] and not made["failed"] and not made["left_out"], f"failed {made['failed']}, left out {made['left_out']}")
    part = {name: {one["scheme"] for one in made["samples"] if one["part"] == name} for name in ("fits", "beyond", "sequence", "sweep")}
    there = {"auto", "cache", "managed pool", "active-list"}
    check(there | {"cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "hybrid source, advice"} <= part["fits"], f"{part['fits']}")
    check(there <= part["beyond"] and there <= part["sequence"] and "active-list X=2" in part["sweep"], f"{part}")
    for one in made["samples"]:
        check(0 < one["min"] <= one["median"] <= one["max"] and one["row"] in made["checksums"], f"{one}")
        check(f"| {one['scheme']} |" in text, f"no line for {one['scheme']}")
    runs = [run for one in made["ratios"] for run in one["runs"]]
    check({run["ratio"] for run in runs} == {0, 50, 95} and any(one["beyond"] for one in made["ratios"]), "ratios")
    check(all(run["checked"] == run["groups"] and run["wrong"] == 0 for run in runs), "chunks are checked")
    bootstrap = made["lifetimes"]["bootstrap"]
    check(bootstrap["objects"] == sum(row["count"] for row in bootstrap["report"]), "the report counts the same objects")
    below = sum(row["count"] for row in bootstrap["report"] if row["below_ns"] and row["below_ns"] <= 10 ** 9)
    check(below == round(bootstrap["below_second"] * bootstrap["objects"]), "the report finds as many below a second")
    counts = [row["objects"] for row in bootstrap["thresholds"]]
    check(counts == sorted(counts) and counts[-1] == bootstrap["objects"], "every object lives less than the largest threshold")
    check("sequence-bootstrap.csv.gz" in traces, f"{traces}")


def explain_bench(place):
    """Texts of a program and of its failure, and costs: whether all is there, not what it is."""
    with tempfile.TemporaryDirectory() as folder:
        def bench(*words):
            done = subprocess.run([sys.executable, place.options.bench, *words, "--build", place.options.examples.parent, "--cuda",
                                   place.options.cuda, "--out", folder], capture_output=True, text=True)
            check(done.returncode == 0, f"explain.py {words}: status {done.returncode}: {done.stdout[-300:]}{done.stderr[-600:]}")

        bench("texts", "--programs=C++")
        bench("calls", "--rounds=1")
        bench("starts", "--rounds=1")
        text = (pathlib.Path(folder) / "texts.txt").read_text()
        calls, starts = (json.loads((pathlib.Path(folder) / f"{part}.json").read_text()) for part in ("calls", "starts"))
    for words in ("C++: run under observe", "C++: run under cache", "LEAKS BY CALL SITE", "MEMORY TAKEN FROM THE DEVICES", "FROM A TO B",
                  "exceeds GPUMEM_LIMIT=4.00 MiB", "requested by  load_frame", "WHEN MEMORY RAN OUT"):
        check(words in text, f"not {words!r} in\n{text}")
    check("usage:" not in text and "took longer" not in text, text)
    rows = calls["rows"] + starts["rows"]
    names = {row["what"] for row in rows}
    check({"alloc_async+free_async", "python-same", "python-changed", "python-new", "start, 64 MiB, whole process"} <= names, f"{names}")
    check(all(0 < row["min"] <= row["median"] <= row["max"] for row in rows), f"{rows}")
    check({"call", "call, 8 frames", "Python frames changed"} == {row["what"] for row in calls["added"] if row["verdict"]}, "targets")
    check(len(starts["added"]) == 4, f"{starts['added']}")


CASES = {case.__name__: case for case in (layers, he_ops_right, he_ops_sequences, he_ops_allocators, he_ops_limit, chunks_right,
                                          chunks_policies, refusals, simulated_settings, resources, workspace_trsm, workspace_trsm_trace,
                                          hybrid_bench, frontiers_bench, explain_bench)}


def main_of(cases, usage, name):
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument("--examples", type=pathlib.Path, required=True)
    parser.add_argument("--cuda", required=True)
    parser.add_argument("--shim", type=pathlib.Path, required=True)
    parser.add_argument("--bench", type=pathlib.Path, required=True)
    parser.add_argument("case", choices=cases)
    options = parser.parse_args()
    try:
        cases[options.case](Place(options))
    except Failure as failure:
        sys.exit(f"{name}: {failure}")


if __name__ == "__main__":
    main_of(CASES, __doc__, "run_examples.py")
