#!/usr/bin/env python3
"""A summary (GPUMEM_TRACE_SUMMARY) beside the trace of single blocks of the same programs, and what readers say of it.

usage: run_summary.py GPUMEM SHIM FOLDER_OF_SIMULATED_CUDA FOLDER_OF_PROGRAMS WORK CASE
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

GPUMEM, SHIM, CUDA, PROGRAMS, WORK = (pathlib.Path(word).resolve() for word in sys.argv[1:6])

# Every kind of memory, leaks, contexts that go with their memory, failed calls.
ALIKE = [["leaks"], ["managed"], ["pools"], ["arrays"], ["mapped"], ["vmm"], ["context_reset"], ["failures"], ["two_devices"], ["pitch"],
         ["host_memory"], ["short_path", "pairs", "3000", "4096"]]


def run(words, trace, **options):
    environment = os.environ | {"LD_PRELOAD": str(SHIM), "LD_LIBRARY_PATH": str(CUDA), "GPUMEM_TRACE": str(trace)}
    environment |= {"GPUMEM_" + name: value for name, value in options.items()}
    return subprocess.run([PROGRAMS / words[0], *words[1:]], env=environment, capture_output=True, text=True, cwd=WORK, timeout=100)


def tool(*words):
    done = subprocess.run([GPUMEM, *words], capture_output=True, text=True, cwd=WORK, timeout=100)
    return done.returncode, done.stdout, done.stderr


def report(trace, *more):
    status, out, err = tool("report", "--json", *more, trace)
    assert (status, err) == (0, ""), (status, err)
    return json.loads(out)["traces"][0]


def facts(found):
    names = ("allocations", "allocated_bytes", "frees", "failed_allocations", "failed_frees", "peak_live_bytes", "leaked_blocks", "leaked_bytes",
             "released_blocks", "released_bytes")
    totals = {name: found["totals"][name] for name in names}
    sites = {site["text"]: tuple(site[name] for name in ("allocations", "allocated_bytes", "at_peak_bytes", "leaked_blocks", "leaked_bytes"))
             for site in found["sites"] if site["allocations"]}
    kinds = {kind["kind"]: (kind["allocations"], kind["allocated_bytes"], kind["frees"], kind["live_bytes"], kind["at_peak_bytes"])
             for kind in found["by_kind"]}
    return totals, sites, kinds


def alike():
    compared = 0
    for words in ALIKE:
        if not (PROGRAMS / words[0]).exists():
            continue
        for policy in ("observe", "cache", "async"):
            full, sums = WORK / f"{words[0]}-{policy}.trace", WORK / f"{words[0]}-{policy}.sums"
            states = [run(words, trace, POLICY=policy, **more).returncode for trace, more in ((full, {}), (sums, {"TRACE_SUMMARY": "10ms"}))]
            assert states[0] == states[1], (words, states)
            if not full.exists():
                assert not sums.exists(), words
                continue
            ours, theirs = report(sums), report(full)
            assert ours["process"]["summary_ns"] == 10000000 and theirs["process"]["summary_ns"] is None
            for mine, other in zip(facts(ours), facts(theirs)):
                assert mine == other, f"{words} under {policy}:\n{mine}\n{other}"
            compared += 1
    assert compared > 15, compared


def reserved():
    """What gpumem keeps is in the summary: the blocks are small, and all are freed."""
    run(["short_path", "pairs", "3000", "4096"], "t.sums", POLICY="cache", TRACE_SUMMARY="10ms")
    found = report("t.sums", "--reserved")
    assert found["totals"]["peak_reserved_bytes"] >= 4096, found["totals"]
    last = found["reserved"]["over_time"][-1]
    assert last["kept_bytes"] == last["reserved_bytes"] > 0, last


def killed():
    environment = os.environ | {"LD_PRELOAD": str(SHIM), "LD_LIBRARY_PATH": str(CUDA), "GPUMEM_TRACE": str(WORK / "t.sums"),
                                "GPUMEM_TRACE_SUMMARY": "10ms", "GPUMEM_TRACE_FLUSH": "10ms"}
    process = subprocess.Popen([PROGRAMS / "short_path", "pairs", "1000000000", "4096"], env=environment)
    try:
        seen = 0
        for _ in range(200):
            time.sleep(0.05)
            if (WORK / "t.sums").exists() and (WORK / "t.sums").stat().st_size > 8192:
                seen = report("t.sums")["totals"]["allocations"]
            if seen:
                break
        time.sleep(0.2)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    found = report("t.sums")
    assert not found["process"]["finished"] and found["damaged_parts"] == 0
    assert found["totals"]["allocations"] > seen > 0, (found["totals"], seen)
    assert found["totals"]["leaked_blocks"] <= 1


def children():
    """A forked child and a program that replaces itself have files of their own."""
    run(["fork_child"], "fork.sums", TRACE_SUMMARY="10ms")
    run(["fork_child"], "fork.trace")
    ours, theirs = sorted(WORK.glob("fork.sums*")), sorted(WORK.glob("fork.trace*"))
    assert len(ours) == len(theirs) > 1, (ours, theirs)

    def all_facts(paths):
        return sorted(str(facts(report(path))[:1]) for path in paths)
    assert all_facts(ours) == all_facts(theirs), (all_facts(ours), all_facts(theirs))
    run(["exec_self"], "exec.sums", TRACE_SUMMARY="10ms")
    assert all(report(path)["process"]["summary_ns"] for path in WORK.glob("exec.sums*"))


def readers():
    """Each command is right about a summary, or says in one line why not."""
    run(["leaks"], "t.sums", TRACE_SUMMARY="1min")
    run(["leaks"], "t.trace")
    run(["leaks"], "t.csv", TRACE_SUMMARY="1min")
    assert facts(report("t.csv")) == facts(report("t.sums"))
    assert tool("export", "--to=csv", "-o", "u.csv", "t.sums")[0] == 0 and facts(report("u.csv")) == facts(report("t.sums"))
    words = "a summary has no single blocks, which {} needs"
    for command, what in ((["replay", "t.sums"], "replay"), (["plan", "-o", "plan", "t.sums"], "plan"),
                          (["plot", "-o", "pictures", "t.sums"], "plot"), (["report", "--sizes", "t.sums"], "report --sizes"),
                          (["report", "--json", "--oom", "t.sums"], "report --oom"), (["export", "--to=torch", "-o", "x", "t.sums"], "torch"),
                          (["export", "--to=sqlite", "-o", "x", "t.csv"], "sqlite")):
        status, _, err = tool(*command)
        assert status == 1 and err.count("\n") == 1 and words.format(what) in err, (command, status, err)
    for part in ("peak", "leaks", "kinds", "reserved"):
        status, out, err = tool("report", "--" + part, "t.sums")
        assert (status, err) == (0, "") and "summary in intervals of 60.00 s" in out, (part, out, err)
    status, out, err = tool("report", "t.sums")
    assert status == 0 and out.rstrip().split("\n")[-1].startswith("a summary has no single blocks"), out
    for measure in ("peak", "bytes", "allocations", "leaked"):
        stacks = [tool("export", "--to=collapsed", "--measure=" + measure, "-o", "-", name)[1] for name in ("t.sums", "t.trace")]
        assert sorted(stacks[0].split("\n")) == sorted(stacks[1].split("\n")) and (stacks[0] or measure == "leaked"), (measure, stacks)
    status, out, err = tool("diff", "--json", "t.trace", "t.sums")
    assert (status, err) == (0, ""), err
    for row in json.loads(out)["diff"]["totals"]:
        assert row["a"] == row["b"] or row["what"] == "call_ns", row
    for row in json.loads(out)["diff"]["sites"]:
        for name in ("allocations", "bytes", "peak_bytes", "leaked_bytes"):
            assert row["a_" + name] == row["b_" + name], row


def options():
    for more, complaint in (({"TRACE_SUMMARY": "1ms"}, "GPUMEM_TRACE_SUMMARY is below 10ms: intervals of 10ms"),
                            ({"TRACE_SUMMARY": "1s", "TRACE_RING": "64M"}, "so GPUMEM_TRACE_RING has no effect"),
                            ({"TRACE_SUMMARY": "1s", "TRACE_COPIES": "1"}, "so GPUMEM_TRACE_COPIES has no effect"),
                            ({"TRACE_SUMMARY": "1d"}, "GPUMEM_TRACE_SUMMARY=1d is not a time such as 500us, 100ms, 2s, 1min or 0")):
        (WORK / "t.sums").unlink(missing_ok=True)
        done = run(["leaks"], "t.sums", **more)
        lines = [line for line in done.stderr.split("\n") if "TRACE_" in line]
        assert len(lines) == 1 and complaint in lines[0], (more, done.stderr)
        assert (WORK / "t.sums").exists()


CASES = {case.__name__: case for case in (alike, reserved, killed, children, readers, options)}
if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    CASES[sys.argv[6]]()
