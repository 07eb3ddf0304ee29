#!/usr/bin/env python3
"""Programs that share a card (gpumem share) and need more than it has: each sees its contents, and all finish.

usage: run_share.py GPUMEM PROGRAM CUDA-FOLDER WORK-FOLDER CASE
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

GPUMEM, PROGRAM, CUDA, WORK, CASE = sys.argv[1:6]
CARD = 42  # MiB
QUANTUM = 0.1
GROUP = f"t{os.getpid()}"
PATH = pathlib.Path(f"/dev/shm/gpumem-group-{os.geteuid()}-{GROUP}")
running = []


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


class Member:
    """PROGRAM under gpumem share; `more`: variables; a quantum of None: natively."""

    def __init__(self, seed=1, quantum="100ms", group=GROUP, **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "SIMCUDA_"))}
        environment.update(LD_LIBRARY_PATH=CUDA, SIMCUDA_CARD=f"{WORK}/card", SIMCUDA_MEMORY=f"{CARD}M", **more)
        before = [GPUMEM, "share", f"--quantum={quantum}", f"--group={group}", "--exec", "--"] if quantum else []
        self.run = subprocess.Popen([*before, PROGRAM, str(seed)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        running.append(self.run)
        self.seed = seed
        ready = self.run.stdout.readline()
        check(ready.startswith("ready "), f"the program has not begun: {ready}{self.run.stderr.read() if not ready else str()}")
        self.pid = int(ready.split()[1])

    def send(self, words):
        self.run.stdin.write(words + "\n")
        self.run.stdin.flush()

    def answer(self):
        return self.run.stdout.readline().strip()

    def ask(self, words):
        self.send(words)
        return self.answer()

    def must(self, words):
        answer = self.ask(words)
        check(answer == "ok", f"{words} of member {self.seed}: {answer or self.run.communicate()}")

    def shows(self):
        shown = subprocess.run([GPUMEM, "top", "--json", "--count=1", str(self.pid)], capture_output=True, text=True, timeout=100)
        return json.loads(shown.stdout)

    def end(self, words=""):
        self.send("end")
        out, error = self.run.communicate(timeout=100)
        check(self.run.returncode == 0 and out.endswith("end\n"), f"member {self.seed} ends with {self.run.returncode}: {out}{error}")
        check(words in error if words else not error, f"member {self.seed} says: {error}")

    def stop(self):
        self.run.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.pid}/task")
        until(lambda: all(") T" in (task / "stat").read_text() for task in tasks.iterdir()), "the process does not stop")

    def kill(self):
        self.run.kill()
        self.run.communicate()


def until(condition, message):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    check(False, message)


def alone():
    """Natively the second one finds no memory, and a member alone is refused as natively, at once."""
    first, second = Member(1, None), Member(2, None)
    first.must("alloc 30")
    check(second.ask("alloc 30") == "error 2", "the card has room for both")
    first.end()
    second.end()
    member = Member(3)
    member.must("alloc 30")
    check(member.ask("alloc 30") == "error 2", "the card is larger than it is")
    member.must("check")
    member.end("out of memory")


def idle():
    """The one that is idle leaves, and comes back when it works again; the other one then leaves."""
    first, second = Member(1), Member(2)
    first.must("alloc 30")
    check(first.ask("info").split()[1] == str(CARD), "the total is that of the card")
    room = int(second.ask("info").split()[0])
    check(room >= 38, f"the second member sees {room} MiB")
    second.must("alloc 30")
    shown = first.shows()
    check(shown["suspended"]["asleep"] and shown["shared"] == {"group": GROUP, "waits": False, "waited_ns": 0, "left": 1}, str(shown["shared"]))
    check(int(first.ask("used")) < 4 and int(second.ask("used")) >= 30, "the first one is not away")
    check(int(first.ask("info").split()[0]) <= CARD - 30, "what is away is no free memory")
    asked = subprocess.run([GPUMEM, "resume", str(first.pid)], capture_output=True, text=True, timeout=100)
    holder = f" MiB of {CARD}.00 MiB are free, process {second.pid} holds 30.00 MiB"
    check(asked.returncode and "too little free memory" in asked.stderr and holder in asked.stderr, asked.stderr)
    first.must("check")
    check(int(second.ask("used")) < 4 and first.shows()["shared"]["waited_ns"] > 0, "the second one is not away")
    first.must("work 5")
    second.must("work 5")
    second.end()
    first.end()


def together():
    """Two busy ones alternate; so do three. One that never submits again is in nobody's way."""
    members = [Member(seed) for seed in (1, 2, 3)]
    members[2].must("alloc 30")
    for member in members[:2]:
        member.send("alloc 30")
    for member in members[:2]:
        check(member.answer() == "ok", "no memory")
        member.send("work 150")
    for member in members[:2]:
        check(member.answer() == "ok", "no work")
    left = [member.shows()["shared"]["left"] for member in members]
    check(left[2] == 1 and all(1 <= n <= 60 for n in left[:2]), f"they left {left} times")
    for member in members:
        member.send("work 40")
    for member in members:
        check(member.answer() == "ok", "no work")
    for member in members:
        member.end()


def threads():
    """Threads that allocate, work and free meanwhile."""
    members = [Member(seed, GPUMEM_POLICY=policy) for seed, policy in ((1, "auto"), (2, "cache"))]
    for member in members:
        member.send("alloc 30")
        member.send("threads 60")
        member.send("check")
    for member in members:
        for _ in range(3):
            check(member.answer() == "ok", "no work")
    for member in members:
        member.end()


def both_wait():
    """Each has a part and waits for the rest: one of them leaves while it waits."""
    members = [Member(1), Member(2)]
    for member in members:
        member.must("alloc 20")
    for member in members:
        member.send("alloc 14")
    for member in members:
        check(member.answer() == "ok", "no memory")
    for member in members:
        member.must("check")
    for member in members:
        member.end()


def killed():
    """A member is killed while it has the card, while it waits, and while it is stopped."""
    first, second, third = Member(1), Member(2), Member(3)
    first.must("alloc 30")
    first.stop()
    second.send("alloc 30")
    until(lambda: second.shows()["shared"]["waits"], "the second one does not wait")
    third.send("alloc 30")
    until(lambda: third.shows()["shared"]["waits"], "the third one does not wait")
    second.kill()
    time.sleep(0.3)
    check(third.shows()["shared"]["waits"], "the third one does not wait any more")
    first.kill()
    check(third.answer() == "ok", "the memory of the killed one is lost")
    third.must("check")
    third.end()


def stopped():
    """A member that is stopped keeps its memory: the other one waits for a bounded time, and is refused as natively."""
    first, second = Member(1), Member(2)
    first.must("alloc 30")
    first.stop()
    begin = time.monotonic()
    check(second.ask("alloc 30") == "error 2", "a stopped process gave memory back")
    check(time.monotonic() - begin > 4 * QUANTUM, "it did not wait")
    words = f"shared with   process {first.pid} has 30.00 MiB"
    first.run.send_signal(signal.SIGCONT)
    second.must("alloc 30")
    second.end(words)
    first.must("check")
    first.end()


def forks():
    """The child of a fork has no part in its parent's place."""
    first, second = Member(1), Member(2)
    first.must("alloc 30")
    first.must("fork")
    second.must("alloc 30")
    second.must("fork")
    first.must("check")
    second.must("check")
    first.end()
    second.end()


def created():
    """A call that needs memory and is none of an allocation asks, too; it is refused where nobody can leave."""
    first, second = Member(1), Member(2)
    first.must("alloc 30")
    second.must("create 20")
    check(first.shows()["suspended"]["asleep"], "the first one is not away")
    check(second.ask("create 60") == "error 2", "the card is larger than it is")
    first.must("check")
    first.end()
    second.end("out of memory")


def asynchronous():
    """A call that submits work and waits for memory can be suspended, too; its own memory stays."""
    first, second = Member(1), Member(2)
    first.must("alloc 30")
    second.must("alloc 6")
    second.must("async 10")
    first.must("work 3")
    second.must("check")
    first.must("check")
    second.end()
    first.end()


def others():
    """Members of another group, and a process without one, are not asked; the words name who has the card."""
    member, other = Member(1), Member(2, group=GROUP + "x")
    other.must("alloc 30")
    check(member.ask("alloc 30") == "error 2", "another group gave memory back")
    member.end("out of memory")
    other.end()
    first, second, plain = Member(1), Member(2), Member(3, None)
    first.must("alloc 30")
    second.must("alloc 30")
    second.must("free")
    until(lambda: second.shows()["memory"]["kept_bytes"] == 0 or int(second.ask("used")) < 4, "kept")
    plain.must("alloc 30")
    asked = subprocess.run([GPUMEM, "resume", str(first.pid)], capture_output=True, text=True, timeout=100)
    check(asked.returncode and "too little free memory" in asked.stderr, asked.stderr)
    first.send("check")
    time.sleep(1)
    plain.end()
    check(first.answer() == "ok", "the contents are lost")
    first.end("cannot resume yet")
    second.end()


def refused_group():
    """The group of another version, a wrong name and a wrong quantum."""
    PATH.write_text("not a group")
    member = Member(1)
    member.must("alloc 30")
    member.end("shares no device")
    for flag, words in (("--group=a/b", "GPUMEM_SHARE=a/b is not a name"), ("--quantum=soon", "GPUMEM_SHARE_QUANTUM=soon")):
        done = subprocess.run([GPUMEM, "share", flag, "--", PROGRAM], capture_output=True, text=True, timeout=100)
        check(done.returncode == 2 and words in done.stderr, done.stderr)


STEPS = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemcpyAsync", "cuStreamSynchronize",
         "cuCtxRecordEvent", "cuEventQuery", "cuMemHostAlloc", "cuMemAddressReserve")  # fmt: skip


def failures(steps=STEPS[:2], times=(3,)):
    """A call of each step fails in one of two members: nothing is lost, nothing hangs."""
    for step in steps:
        for n in times:
            first, second = Member(1, SIMCUDA_FAIL=f"{step}:{n}:999:1"), Member(2)
            # The failing call may be one for the first block: its error is the program's.
            if first.ask("alloc 30") == "ok":
                second.must("alloc 30")
                first.must("check")
                second.must("work 3")
                first.must("check")
            second.send("end")
            first.send("end")
            for member in (first, second):
                out, error = member.run.communicate(timeout=100)
                check(member.run.returncode == 0 and out.endswith("end\n"), f"{step}:{n}: {member.run.returncode} {out}{error}")


def random_programs(seeds=(1, 2), kills=False):
    """Members that allocate, free and work in any order, and may be killed; each holds at most the card."""
    for seed in seeds:
        choose = random.Random(seed)
        members = [Member(number + 10 * seed, GPUMEM_POLICY=choose.choice(("auto", "cache", "observe")),
                          SIMCUDA_STREAMS=choose.choice(("immediate", "random:7"))) for number in range(choose.choice((2, 3)))]  # fmt: skip
        held, asked = dict.fromkeys(members, 0), dict.fromkeys(members, 0)
        for step in range(30):
            member = choose.choice(members)
            word = choose.choice(("alloc", "alloc", "alloc", "work", "work", "check", "free"))
            size = choose.choice((1, 7, 20))
            if word == "alloc" and held[member] + size > 36:
                word = choose.choice(("work", "check", "free"))
            held[member] = held[member] + size if word == "alloc" else 0 if word == "free" else held[member]
            member.send(f"{word} {size if word == 'alloc' else choose.randrange(1, 30)}")
            asked[member] += 1
            while choose.randrange(2) and asked[member]:
                check(member.answer() == "ok", f"seed {seed}: member {member.seed}")
                asked[member] -= 1
            if kills and step % 8 == 7 and len(members) > 1:
                members.remove(member)
                member.kill()
        for member in members:
            for _ in range(asked[member]):
                check(member.answer() == "ok", f"seed {seed}: member {member.seed} at its end")
        for member in members:
            member.send("end")
        for member in members:
            out, error = member.run.communicate(timeout=100)
            check(member.run.returncode == 0 and out.endswith("end\n"), f"seed {seed}: {out}{error}")


def again():
    """More of what fails, and more programs."""
    failures(STEPS, (1, 2, 5, 9))
    random_programs(range(3, 23))
    random_programs(range(23, 53), kills=True)


CASES = {"alone": alone, "idle": idle, "together": together, "threads": threads, "both_wait": both_wait, "killed": killed,
         "stopped": stopped, "forks": forks, "async": asynchronous, "created": created, "others": others, "refused": refused_group,
         "failures": failures, "random": random_programs, "again": again}  # fmt: skip

signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAILED: the time is over"))
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
try:
    CASES[CASE]()
finally:
    for run in running:
        if run.poll() is None:
            run.kill()
            run.wait()
    for path in (PATH, PATH.with_name(PATH.name + "x")):
        path.unlink(missing_ok=True)
