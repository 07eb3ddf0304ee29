#!/usr/bin/env python3
"""gpumem suspend and gpumem resume reach a process that makes no call, and gpumem top shows it.

usage: run_suspend.py GPUMEM PROGRAM CUDA-FOLDER CHECKPOINT-DRIVER
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

GPUMEM, PROGRAM, CUDA, CHECKPOINT = sys.argv[1:5]


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


class Process:
    """PROGRAM under gpumem run."""

    def __init__(self, *flags):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "SIMCUDA_"))}
        environment["LD_LIBRARY_PATH"] = CUDA
        self.run = subprocess.Popen([GPUMEM, "run", *flags, "--", "sh", "-c", 'echo $$; exec "$0" outside', PROGRAM], env=environment,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.run.stdout.readline().strip()
        check(self.run.stdout.readline() == "ready\n", "the program has not begun")

    def ask(self, word, lines):
        self.run.stdin.write(word + "\n")
        self.run.stdin.flush()
        return [self.run.stdout.readline().strip() for _ in range(lines)]

    def used(self):
        return int(self.ask("look", 1)[0].split()[1])

    def end(self):
        self.run.stdin.write("end\n")
        out, error = self.run.communicate(timeout=100)
        check(self.run.returncode == 0 and "ok suspend" in out, f"the program ends with {self.run.returncode}: {out}{error}")


def gpumem(*arguments, environment=None):
    return subprocess.run([GPUMEM, *arguments], capture_output=True, text=True, timeout=200, env=environment)


def moved(*arguments):
    done = gpumem(*arguments)
    check(done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}")
    return int(re.search(r": (\d+) MiB (left|came back to) the device in \d+ ms$", done.stdout, re.M).group(1))


def refused(words, *arguments):
    done = gpumem(*arguments)
    check(done.returncode and words in done.stderr, f"{arguments}: {done.returncode} {done.stdout}{done.stderr}")


def shown(process):
    return json.loads(gpumem("top", "--json", "--count=1", process.pid).stdout)["suspended"]


def stays(process):
    """What stays is listed with its reason, and what left is a row of the device's account."""
    out = gpumem("suspend", "--keep=weights", process.pid).stdout
    check(re.search(r"^  stays +30\.00 MiB  kept, as a glob names it$", out, re.M), out)
    check(re.search(r"^  stays +4\.00 MiB  of cudaMallocAsync and pools$", out, re.M), out)
    top = json.loads(gpumem("top", "--json", "--count=1", process.pid).stdout)
    expected = [{"why": "kept, as a glob names it", "bytes": 30 << 20}, {"why": "of cudaMallocAsync and pools", "bytes": 4 << 20}]
    check(top["suspended"]["stayed"] == expected, str(top["suspended"]))
    account = top["memory"]["by_device"][0]["account"]
    check(account["suspended_bytes"] == 40 << 20 and account["elsewhere_bytes"] == 0, str(account))
    text = gpumem("top", "--prometheus", process.pid).stdout
    check(re.search(r'gpumem_suspended_stayed_bytes\{.*why="kept, as a glob names it"\} 31457280', text), text)
    check(re.search(r'gpumem_device_account_bytes\{.*row="suspended"\} 41943040', text), text)
    check(moved("resume", process.pid) == 40, "it comes back")
    check("_stayed_bytes{" not in gpumem("top", "--prometheus", process.pid).stdout, "an awake process has nothing that stays")


def suspended():
    process = Process("--suspend=on")
    full = process.used()
    check(moved("suspend", process.pid) == 70, "all leaves")
    check(process.used() == full - 70, f"the card has {process.used()} MiB of {full}")
    seen = shown(process)
    check(seen["asleep"] and seen["away_bytes"] == seen["stored_bytes"] == 70 << 20 and seen["suspends"] == 1, str(seen))
    check(process.ask("use", 2) == [f"used {full - 70}", "kv 91"] and process.used() == full, "the first copy brings all back")
    check(moved("suspend", "--keep=weights", "--drop=k?", "--wait", process.pid) == 40, "one of two blocks leaves")
    check(shown(process)["kept_bytes"] == 30 << 20, "the host keeps what it holds of the other")
    check(moved("resume", process.pid, "weights") == 0 and moved("resume", process.pid, "*v") == 40, "it comes back")
    check(process.ask("use", 2) == [f"used {full}", "kv 0"], "what was dropped is zero")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        check(moved("suspend", f"--to={os.path.relpath(folder)}", process.pid) == 70, "all leaves to a file")
        check(shown(process)["kept_bytes"] == 0 and not os.listdir(folder), "no memory, and no name")
        check(process.ask("use", 2) == [f"used {full - 70}", "kv 0"], "it comes back from there")
    refused("--to=none: No such file", "suspend", "--to=none", process.pid)
    stays(process)
    refused("expected a process id", "suspend")
    refused("not a process id", "resume", "none")
    process.end()


def traced(work, ending):
    """A suspend that fails, one that succeeds and its resume: the trace has them, and what reads it understands them."""
    trace = os.path.join(work, f"suspends.{ending}")
    environment = {**os.environ, "LD_LIBRARY_PATH": CUDA}
    done = subprocess.run([GPUMEM, "run", "--suspend=on", f"--trace={trace}", "--", PROGRAM, "busy"], env=environment, capture_output=True, text=True,
                          timeout=200)
    check(done.returncode == 0, done.stdout + done.stderr)
    rows = json.loads(gpumem("report", "--json", "--suspends", trace).stdout)["traces"][0]["suspends"]["rows"]
    check([row["what"] for row in rows] == ["suspend", "suspend", "resume"], str(rows))
    failed, left, back = rows
    check("does not end" in failed["failed"] and failed["left_bytes"] == 0 and failed["duration_ns"] >= 300000000, str(failed))
    check(left["failed"] is None and left["left_bytes"] == back["back_bytes"] > 3 << 20 and left["dropped_bytes"] == 0, str(rows))
    check(failed["time_ns"] < left["time_ns"] < back["time_ns"], str(rows))
    text = gpumem("report", "--suspends", trace).stdout
    check(re.search(r"^ *suspend .*work of the program does not end", text, re.M), text)
    for words in (["export", "--to=csv", "-o", trace + ".out"], ["export", "--to=perfetto", "-o", trace + ".pf"], ["replay"], ["report"], ["html", "-o", trace + ".html"]):
        done = gpumem(*words, trace)
        check(done.returncode == 0, f"{words}: {done.stdout}{done.stderr}")
    with open(trace + ".out", encoding="utf-8") as file:
        check(file.read().count(",suspend,") == 2, "the export lacks the suspends")


def idle():
    process = Process("--suspend=on", "--suspend-idle=200ms")
    full = process.used()
    for _ in range(200):
        if process.used() == full - 70:
            break
        time.sleep(0.05)
    check(process.used() == full - 70, "an idle process is not suspended")
    check(process.ask("use", 2)[1] == "kv 91", "the contents are gone")
    process.end()


def whole(flags, first, left, back):
    """The driver saves what is left. `first`: what gpumem serves, in words that stdout begins with, and for the other two words."""
    process = Process(*flags)
    with tempfile.TemporaryDirectory() as folder:
        state = pathlib.Path(folder, "state")
        pathlib.Path(folder, "libcuda.so.1").symlink_to(CHECKPOINT)
        driver = os.environ | {"LD_LIBRARY_PATH": folder, "CHECKPOINT_STATE": str(state)}

        def ask(words, *arguments, fails="", status=0):
            done = gpumem(*arguments, process.pid, environment=driver | {"CHECKPOINT_FAILS": fails})
            check(done.returncode == status, f"{arguments} {fails}: {done.returncode} {done.stdout}{done.stderr}")
            pattern = "".join(f"process {process.pid}: {each}\n(  stays .*\n)*" for each in words)
            check(re.fullmatch(pattern, done.stdout + done.stderr.replace("gpumem: suspend: ", "").replace("gpumem: resume: ", "")),
                  f"{arguments} {fails}: {done.stdout}{done.stderr}; expected {words}")

        full = process.used()
        for fails in "Lock", "Checkpoint":
            ask([*first, *(["[0-9]+ MiB came back.*"] if first else []), f".*cuCheckpointProcess{fails} answers CUDA_ERROR_OUT_OF_MEMORY .2."],
                "suspend", "--context", fails=fails.lower(), status=1)
            check(process.used() == full and state.read_text() != "2\n" if state.exists() else True, "a failed suspend changes something")
        ask([*first, left], "suspend", "--context")
        check(state.read_text() == "2\n", "it is not checkpointed")
        ask([".*cuCheckpointProcessRestore answers CUDA_ERROR_OUT_OF_MEMORY .2."], "resume", fails="restore", status=1)
        check(state.read_text() == "2\n", "it is not checkpointed any more")
        ask([back, *(["[0-9]+ MiB came back.*"] if first else [])], "resume")
        check(state.read_text() == "0\n" and process.used() == full, "it is not back")
        if first:
            ask(["0 MiB came back.*"], "resume", fails="restore")
        else:
            ask([".*it does not run with GPUMEM_SUSPEND=on, and the driver has not suspended it"], "resume", status=1)
            ask(["--keep, --drop and --to need .*"], "suspend", "--context", "--drop=kv", status=1)
    process.end()


def without():
    process = Process()
    refused("does not run with GPUMEM_SUSPEND=on", "suspend", process.pid)
    refused("does not run with GPUMEM_SUSPEND=on", "resume", process.pid)
    process.end()


suspended()
whole(["--suspend=on"], ["70 MiB left the device in [0-9]+ ms"], "its context and what was left left the device in [0-9]+ ms",
      "its context and what was left came back to the device in [0-9]+ ms")
whole([], [], "all that it has left the device in [0-9]+ ms, by the driver alone.*", "all that it has came back to the device in [0-9]+ ms")
with tempfile.TemporaryDirectory() as folder:
    traced(folder, "gmt")
    traced(folder, "csv")
idle()
without()
