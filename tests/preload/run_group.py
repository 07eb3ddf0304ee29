#!/usr/bin/env python3
"""GPUMEM_GROUP on the simulated CUDA: several processes share a limit, which changes while they run, which NVML shows,
and which a killed process gives back.

usage: run_group.py GPUMEM SHIM PROGRAM CUDA NVML_FOLDER LIMIT_CALLS CASE
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import uuid

sys.argv[5:] = [sys.argv[7], *sys.argv[5:7]]
import commanded
import run_top
from run_top import GPUMEM, SHIM, LIMIT_S, MIB, Program, check, environment, equal, top

NVML, LIMIT_CALLS = (os.path.abspath(path) for path in sys.argv[6:8])
NAME = "test-" + uuid.uuid4().hex[:16]
PATH = pathlib.Path(f"/dev/shm/gpumem-group-{os.geteuid()}-{NAME}")


class Alone(Program):
    """A program that answers with numbers."""

    def __init__(self, stderr=None, **more):
        super().__init__(stderr=stderr, **{"GPUMEM_OOM": "trim,fail", "GPUMEM_LOG": "error", "LD_LIBRARY_PATH": run_top.CUDA + ":" + NVML, **more})

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def numbers(self, word):
        line = self.process.stdout.readline().split()
        check(line and line[0] == word, f"{line} instead of {word}")
        return [int(number) for number in line[1:]]

    def get(self, word):
        self.tell(word)
        return self.numbers(word)

    def fill(self):
        """Blocks of 16 MiB until one is refused; their number."""
        taken = 0
        while self.get("try") == [0]:
            taken += 1
        return taken


class Member(Alone):
    def __init__(self, limit=None, stderr=None, **more):
        if limit:
            more["GPUMEM_LIMIT"] = limit
        super().__init__(stderr=stderr, **{"GPUMEM_GROUP": NAME, **more})


def limit(*arguments, status=0):
    done = subprocess.run([GPUMEM, "limit", *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_S, env=environment())
    equal(done.returncode, status, f"status of limit {arguments}: {done.stderr}")
    if status:
        equal(done.stdout, "", "output")
        check(done.stderr.startswith("gpumem: ") and done.stderr.count("\n") == 1, f"not one line: {done.stderr}")
    return done.stdout + done.stderr


def shared():
    """Two processes hold what one may; what one frees, the other gets."""
    with Member("64MiB") as one, Member() as two:
        equal((one.fill(), two.get("room")), (4, [0, 64]), "all of it, and what the other sees")
        equal(two.get("try"), [2], "a request of the other")
        one.do("free")
        equal(two.get("room"), [16, 64], "room after a free")
        equal((two.get("try"), two.get("try")), ([0], [2]), "the freed part")
        text = limit(NAME)
        check("limit 64.00 MiB, 2 processes" in text and "device 0: 64.00 MiB in use" in text, text)
        one.end()
        equal(two.fill(), 3, "what a process that ended held")


def killed():
    """kill -9 gives a process' share back, also of one with closed descriptors, and of a forked child."""
    with Member("64MiB") as one:
        one.get("room")
        with Member() as two:
            two.do("alloc", "free", "close")
            equal(two.fill(), 4, "all")
            equal(one.get("try"), [2], "nothing is left")
            two.process.kill()
            two.process.wait()
            equal(one.get("room"), [64, 64], "room after the other was killed")
            equal(one.fill(), 4, "all of it again")
        while one.get("room") != [64, 64]:
            one.do("free")
        with Member() as parent:
            equal(parent.get("try"), [0], "of the parent")
            parent.do("fork")
            equal(parent.get("try"), [0], "of its child")
            equal(one.get("room"), [32, 64], "both count")
            os.kill(parent.pid, signal.SIGKILL)
            parent.process.wait()
            equal(one.get("room"), [64, 64], "after both ended")


def race():
    """Members that want the last block at the same time: exactly those that fit get it, however they meet."""
    with Member("48MiB") as one, Member() as two, Member() as three, Member() as four:
        members = (one, two, three, four)
        equal([m.get("try")[0] for m in (one, two)], [0, 0], "two of three places are taken")
        for m in members:
            m.tell("race")
        refused = [m.numbers("race")[0] for m in members]
        check(all(n < 4000 for n in refused), f"somebody never got a block: {refused}")
        equal(one.get("room"), [16, 48], "room afterwards")
        equal(three.fill(), 1, "the last place")
        four.tell("race")
        four.process.kill()
        four.process.wait()
        equal(two.get("try"), [2], "still full")
        equal(one.get("room"), [0, 48], "room at the end")


def changed():
    """gpumem limit changes the limit of a group and of a process, up and down."""
    limit(NAME, "32MiB")
    with Member() as one, Member() as two:
        equal((one.fill(), two.fill()), (2, 0), "at first")
        limit(NAME, "64M")
        equal((two.fill(), two.get("room")), (2, [0, 64]), "higher")
        limit(NAME, "16MiB")
        one.do("free", "free")
        equal(one.get("try"), [2], "lower: the other holds too much")
        two.do("free")
        equal((one.get("try"), two.get("room")), ([2], [0, 16]), "lower, and full")
        two.do("free")
        equal((one.get("try"), one.get("try")), ([0], [2]), "lower, and room again")
        check("limit 50 %, 2 processes" in limit(NAME, "50%"), "a part of the device")
        equal(two.get("room")[1], 2048, "half of 4 GiB")
        shown = top("--json", "--count=1", f"--group={NAME}")[1].splitlines()
        equal([(row["limit_bytes"], row["limit_percent"]) for row in map(json.loads, shown)], 3 * [(None, 50)], "as it was given")
        equal([row["memory"]["by_device"][0]["limit_bytes"] for row in map(json.loads, shown[1:])], 2 * [2048 * MIB], "of the device")
        limit(two.pid, "0")
        check("limit none, 2 processes" in limit(NAME), "a process id stands for its group")
        check(two.get("room")[1] > 64 and two.get("try") == [0], "no limit")
    with Alone(GPUMEM_LIMIT="32MiB") as alone:
        ask = alone.get
        equal((ask("try"), ask("try"), ask("try")), ([0], [0], [2]), "a process' own limit")
        check("limit 48.00 MiB" in limit(alone.pid, "48MiB"), "answer")
        equal((ask("room"), ask("try"), ask("try")), ([16, 48], [0], [2]), "higher")
        alone.do("fork")
        equal((ask("room")), [48, 48], "the child keeps the changed limit")
        limit(alone.pid, "16MiB")
        equal((ask("try"), ask("try")), ([0], [2]), "lower")
    with Alone(GPUMEM_LIMIT="12.5%") as alone:
        equal((alone.get("room"), alone.fill(), alone.get("room")), ([512, 512], 32, [0, 512]), "a part of the device")
        check("limit 12.5 %" in limit(alone.pid), "as it was given")
        limit(alone.pid, "25%")
        equal((alone.get("room"), alone.fill()), ([512, 1024], 32), "another part")
    with Program() as free:
        free.do("alloc")
        check("without GPUMEM_LIMIT and GPUMEM_GROUP" in limit(free.pid, "1G", status=1), "an uncounted process")


def launched():
    """A process under gpumem run: its limit changes too."""
    with Alone(command=[GPUMEM, "run", "--library", SHIM, "--limit=32MiB", "--oom=trim,fail", "--"], preload=False) as one:
        one.do("alloc")
        limit(one.pid, "1MiB")
        check("limit 1.00 MiB" in limit(one.pid), "its limit")
        equal(one.get("try"), [2], "refused")
        one.end()


def nvml():
    """NVML shows the limit, to members, and to a process that never calls CUDA."""
    with Member("64MiB") as one, Member() as watcher:
        one.get("room")
        equal(watcher.get("nvml"), [64, 0, 64] * 2, "before anybody has memory")
        equal(one.get("try"), [0], "a block")
        for who in (one, watcher):
            equal(who.get("nvml"), [48, 16, 64] * 2, "with a block")
        limit(NAME, "8GiB")
        equal(watcher.get("nvml"), [8192 - 16, 16, 8192] * 2, "another limit")
        limit(NAME, 0)
        equal(watcher.get("nvml"), [16384 - 256, 256, 16384, 16384 - 256, 0, 16384], "no limit: the driver's answer")
    with Alone(GPUMEM_LIMIT="64MiB") as alone:
        equal((alone.get("try"), alone.get("nvml")), ([0], [48, 16, 64] * 2), "a process' own limit")
    with Alone() as free:
        equal(free.get("nvml"), [16384 - 256, 256, 16384, 16384 - 256, 0, 16384], "without a limit")


def kinds():
    """Pools, VMM, arrays, pitched and managed memory count, beside another member's block."""
    with Member("80MiB") as one:
        equal(one.get("try"), [0], "a block")
        limit(NAME, "64MiB")
        equal(one.get("room"), [48, 64], "room")
        one.do("free")
        done = subprocess.run([LIMIT_CALLS], capture_output=True, text=True, timeout=LIMIT_S,
                              env=environment(LD_PRELOAD=SHIM, GPUMEM_GROUP=NAME, GPUMEM_POLICY="cache", GPUMEM_OOM="trim,fail",
                                              LIMIT_MIB="64", GPUMEM_LOG="error"))
        equal((done.returncode, done.stderr), (0, ""), f"limit_calls: {done.stdout}")
        equal(one.get("room"), [64, 64], "nothing is left behind")


def shown():
    """gpumem top: a group, an order, JSON, and what Prometheus reads."""
    with Member("64MiB") as one, Member() as two, Program() as other:
        other.do("alloc")
        one.do("alloc")
        equal((two.get("try"), two.get("try")), ([0], [0]), "blocks")
        status, out, err = top("--group=" + NAME, "--json", "--count=1", "--sort=live")
        equal((status, err), (0, ""), "status")
        group, *rest = [json.loads(line) for line in out.splitlines()]
        equal((group["group"], group["limit_bytes"], group["processes"]), (NAME, 64 * MIB, 2), "group")
        equal(group["devices"], [{"device": 0, "used_bytes": 33 * MIB}], "devices")
        equal([s["pid"] for s in rest], [two.pid, one.pid], "members by live bytes")
        equal([s["group"] for s in rest], [NAME, NAME], "names")
        _, out, _ = top("--json", "--count=1", "--sort=pid", one.pid, two.pid, other.pid)
        pids = [json.loads(line)["pid"] for line in out.splitlines()]
        equal(pids, sorted(pids), "by pid")
        status, out, err = top("--group=" + NAME, "--batch", "--count=2", "--interval=20ms")
        equal((status, err), (0, ""), "status of text")
        check(f"group {NAME}, 2 processes, limit 64.00 MiB, device 0 33.00 MiB" in out, out)
        first = next(line for line in out.splitlines() if f" {two.pid} " in line)
        check("0.0" in first.split(), f"no rates in the first line: {first}")
        status, out, err = top("--prometheus", "--group", NAME)
        equal((status, err), (0, ""), "status of prometheus")
        parse(out, one, two)
        for wrong, word in ((["--sort=size"], "live|reserved"), (["--group=a/b"], "a/b"), (["--group=no-such-group"], "does not exist"),
                            (["--json", "--prometheus"], "exclude"), (["--group=" + NAME, one.pid], "--group excludes")):
            status, out, err = top("--count=1", *wrong)
            check(status and not out and word in err and err.count("\n") == 1, f"{wrong}: {status} {out} {err}")


def parse(text, one, two):
    """Each metric has HELP and TYPE before its samples, once, and no sample stands twice."""
    samples, types, current = {}, {}, None
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            check(current not in types, f"{current} twice")
            types[current] = kind
        elif not line.startswith("# HELP "):
            match = re.fullmatch(r'(\w+)(\{(?:\w+="(?:[^"\\]|\\.)*",?)*\}) (\d+)', line)
            check(match and match[1] == current, f"bad line: {line}")
            check((match[1], match[2]) not in samples, f"twice: {line}")
            samples[match[1], match[2]] = int(match[3])
    check(all(kind == "counter" if name.endswith("_total") else kind == "gauge" for name, kind in types.items()), types)
    label = f'{{pid="{two.pid}",program="watched",group="{NAME}",kind="cache"}}'
    equal(samples["gpumem_live_bytes", label], 32 * MIB, "live")
    equal(samples["gpumem_allocations_total", label], 2, "allocations")
    equal(samples["gpumem_group_used_bytes", f'{{group="{NAME}",device="0"}}'], 33 * MIB, "used by the group")
    equal(samples["gpumem_group_limit_bytes", f'{{group="{NAME}"}}'], 64 * MIB, "limit")
    (limit,) = (value for (name, label), value in samples.items() if name == "gpumem_limit_bytes" and f'pid="{two.pid}"' in label)
    equal(limit, 64 * MIB, "the group's limit is in force")


def wrong():
    for bad in ("a/b", "", ".hidden", "x" * 48, "a b"):
        check("accepted: 1 to 47 letters" in limit(bad, "1G", status=2), bad)
    check("BYTES" in limit(status=2), "no arguments")
    check("'1.5X' is not a number of bytes; accepted: " in limit(NAME, "1.5X", status=2), "bytes")
    check("does not exist" in limit(NAME, status=1), "a group that is not there")
    check("no such process" in limit(4194305, "1G", status=1), "process")
    check("not a process id" in limit("99999999999", "1G", status=2), "process")
    for bad in ("a/b", NAME + "x" * 48):
        outside("64MiB", "accepted: 1 to 47 letters", GPUMEM_GROUP=bad)
    PATH.write_text("something else")
    outside("64MiB", "another version")
    outside(None, "another version")
    check("another version" in limit(NAME, "1G", status=1), "a foreign file")
    PATH.unlink()
    with Member("64MiB") as one:
        equal(one.get("try"), [0], "a block")
        check("running members" in limit("--remove", NAME, status=1), "removed under a member")
    limit("--remove", NAME)
    check(not PATH.exists(), "the file")
    with Member("64MiB") as one, Member("32MiB") as two:
        equal(one.get("try") + two.get("try") + [two.fill()], [0, 0, 2], "the first member's limit counts")
    with Member("32MiB") as one:
        equal(one.fill(), 2, "a first member sets the limit anew")
    with Member() as one:
        equal(one.fill(), 2, "and the file keeps it")


def outside(limit, why, **more):
    """A process that cannot join its group: it says so once, and is granted nothing, whatever its own limit is. Its child neither."""
    with Member(limit, stderr=subprocess.PIPE, **more) as one:
        total = one.get("room")[1]
        equal((one.fill(), one.get("room")), (0, [0, total]), f"outside of its group: {why}")
        check(total > 1024, f"the card has {total} MiB")
        equal(one.get("nvml"), [0, 16384, 16384] * 2, "what NVML says")
        one.do("fork")
        equal(one.fill(), 0, "its child")
        said = [line for line in one.end().splitlines() if "GPUMEM_GROUP=" in line]
        check(len(said) == 1 and why in said[0] and "requests for memory of a device fail" in said[0], said)


def taken():
    """Another user made the file first. Without a folder of the user's own no process runs outside of its group; with one the
    group is there."""
    if os.geteuid():
        print("skipped: needs root, to make a file of another user")
        sys.exit(run_top.SKIP)
    PATH.touch(mode=0o666)
    os.chown(PATH, commanded.NOBODY, commanded.NOBODY)
    outside("64MiB", "belongs to somebody else", XDG_RUNTIME_DIR="/none")
    with tempfile.TemporaryDirectory() as folder:
        own = pathlib.Path(folder) / PATH.name
        os.environ["XDG_RUNTIME_DIR"] = folder
        os.chmod(folder, 0o777)
        outside("64MiB", "belongs to somebody else")
        os.chmod(folder, 0o700)
        with Member("64MiB") as one, Member() as two:
            equal((one.fill(), two.get("try"), two.get("room")), (4, [2], [0, 64]), "they share")
            check("limit 96.00 MiB, 2 processes" in limit(NAME, "96MiB"), "by its name")
            check("limit 80.00 MiB, 2 processes" in limit(two.pid, "80MiB"), "by a process")
            equal(two.fill(), 1, "below the new limit")
            PATH.unlink()
            with Member() as three:
                equal(three.get("room"), [0, 80], "who comes after the other file is gone")
            check(not PATH.exists(), "a second file")
        limit("--remove", NAME)
        check(not own.exists(), "the file")


def main():
    cases = (shared, killed, race, changed, launched, nvml, kinds, shown, wrong, taken)
    try:
        {function.__name__: function for function in cases}[sys.argv[5]]()
    finally:
        PATH.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
