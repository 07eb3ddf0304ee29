#!/usr/bin/env python3
"""Guarded blocks: unmodified programs with one memory error each, and what gpumem says of it.

usage: run_guard.py --programs DIR --cuda DIR --shim FILE --work DIR --gpumem FILE CASE
"""

import pathlib
import re
import shutil
import subprocess
import sys

from place import check, is_simulated, run_case

BENCH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench"

# What is said, line by line, as patterns. What stands before the call sites is the same on a card.
FOUND = {
    "none": [],
    "behind_byte": ["1 byte was written right behind the end of a block of 1000 bytes", "allocated by .*behind_byte", "found +at its free by .*behind_byte"],
    "before_byte": ["1 byte was written right before the start of a block of 1000 bytes", "allocated by .*before_byte", "found +at its free by .*before_byte"],
    "far_before": ["4000 bytes were written right before the start of a block of 4.00 KiB", "allocated by .*far_before"],
    "long_before": ["(80000|at least 65536) bytes were written right before the start of a block of 4.00 KiB", "allocated by .*long_before"],
    "read_last": [],
    "beside_by_first": ["1 byte was written right behind the end of a block of 1000 bytes", "allocated by .*beside_by_first", "found +at its free by"],
    "null_argument": ["illegal address: ", "kernel +write_words", "argument 1  is 0, which is no address if it is a pointer"],
    "never_freed": ["1 byte was written 1 bytes behind the end of a block of 1000 bytes", "allocated by .*never_freed", "at the end of the process"],
    "behind_element": ["illegal address: .*cuCtxSynchronize returned the error", "seen by .*behind_element", "kernel +write_words, launched by",
                       "argument 1  a block of 4.00 KiB, allocated by .*behind_element"],
    "behind_stride": ["illegal address: .*cuStreamSynchronize", "kernel +write_words", "argument 1  a block of 4.00 KiB, allocated by .*behind_stride"],
    "before_stride": ["illegal address: .*cuStreamSynchronize", "kernel +write_byte", "argument 1  a block of 1000 bytes, allocated by .*before_stride"],
    "in_a_struct": ["illegal address: ", "kernel +write_view, launched by .*launch_view", "argument 1  a block of 4.00 KiB, allocated by .*in_a_struct"],
    "after_free": ["kernel write_words gets a pointer to freed memory: argument 1 points to a block of 4.00 KiB that was freed", "launched by",
                   "allocated by .*after_free", "freed by .*after_free", "illegal address: ", "kernel +write_words",
                   "a block of 4.00 KiB that was freed, allocated by .*after_free"],
    "after_free_other_stream": ["kernel write_words gets a pointer to freed memory", "freed by .*after_free_other_stream", "illegal address: "],
    "after_free_other_thread": ["kernel write_words gets a pointer to freed memory", "freed by .*after_free_other_thread", "illegal address: ", "seen by .*other_thread"],
    "after_free_in_order": ["kernel write_words gets a pointer to freed memory", "freed by .*after_free_in_order", "illegal address: "],
    "after_free_in_a_struct": ["illegal address: ", "argument 1  a block of 4.00 KiB that was freed, allocated by .*after_free_in_a_struct"],
    "after_free_many_kernels": ["kernel write_words gets a pointer to freed memory", "allocated by .*after_free_many_kernels", "illegal address: ",
                                "kernel +write_words"],
    "after_free_late_argument": ["kernel last_but_one gets a pointer to freed memory: argument 19 points to a block of 4.00 KiB that was freed",
                                 "illegal address: ", "kernel +last_but_one", "argument 19  a block of 4.00 KiB that was freed", "and 4 more pointers to guarded blocks"],
    "stale_member": [],  # the kernel does not use it
    "freed_twice": ["cuMemFree of 0x.*which was freed before: a block of 4.00 KiB", "allocated by .*freed_twice", "first freed +by .*freed_twice"],
    "freed_inside": ["cuMemFree of 0x.*lies 256 bytes inside a live block of 4.00 KiB", "allocated by .*freed_inside"],
    "freed_as_host": ["cuMemFreeHost of 0x.*, which does not free it: a live block of 4.00 KiB from cuMemAlloc", "allocated by .*freed_as_host",
                      "this free +by .*freed_as_host"],
    "host_freed": ["cuMemFree of 0x.*, which does not free it: a live block of 4.00 KiB from cuMemAllocHost", "allocated by .*host_freed",
                   "this free +by .*host_freed"],
    "copy_behind": ["cuMemcpyDtoH reads 2000 bytes, the last 1000 behind the end of a block of 1000 bytes", "called by .*copy_behind",
                    "allocated by .*copy_behind"],
    "copy_to_behind": ["cuMemcpyHtoDAsync writes 1100 bytes, the last 100 behind the end of a block of 1000 bytes"],
    "copy_rows_behind": ["cuMemcpy2D reads 1088 bytes, the last 64 behind the end of a block of 1024 bytes"],
    "copy_freed": ["cuMemcpyDtoH reads 100 bytes at a block of 1000 bytes that was freed", "freed by .*copy_freed"],
    "graph_freed": ["kernel write_words of a graph gets a pointer to freed memory: argument 1 points to a block of 4.00 KiB that was freed",
                    "launched by", "allocated by .*graph_freed", "freed by .*graph_freed", "illegal address: ", "kernel +of a graph",
                    "an argument  a block of 4.00 KiB that was freed, allocated by .*graph_freed"],
    "graph_updated": [],
    "before_ready": ["possible race: kernel write_words may use memory before it is allocated: argument 1 points to a block of 4.00 KiB", "launched by .*before_ready",
                     "allocated by .*before_ready.*, in the order of another stream", "not seen +an event or a wait",
                     "GPUMEM_GUARD=all,noraces"],
    "ready_by_flag": ["possible race: kernel write_words may use memory before it is allocated: argument 1 points to a block of 4.00 KiB"],
    "loaded_before_ready": ["possible race: kernel write_words may use memory before it is allocated", "launched by .*loaded_before_ready"],
    "copied_before_ready": ["possible race: cuMemcpyHtoDAsync may write memory before it is allocated: 100 bytes at a block of 4.00 KiB",
                            "called by .*copied_before_ready", "allocated by .*copied_before_ready.*, in the order of another stream"],
    "ready_by_event": [],
    "freed_in_use": ["possible race: kernel write_words may still use a block of 4.00 KiB that is freed now", "launched by .*freed_in_use",
                     "freed by .*freed_in_use.*, in the order of another stream"],
    "host_pointer": ["illegal address: ", "kernel +write_words", "argument 1  an address of the host's heap, which the device cannot reach"],
    "behind_grown": ["illegal address: ", "kernel +write_words", "argument 1  lies in a block of 2.00 MiB that is not guarded, allocated by .*behind_grown"],
    "never_written": [],  # nothing is said: see the case poison
    "leaked": [],         # the closing lines say it: see the case counted
    "fill_behind": ["cuMemsetD32Async writes 1004 bytes, the last 4 behind the end of a block of 1000 bytes"],
}

# What is said of the programs of guard_uses.c.
USES = {
    **{name: [] for name in ("vector_grows", "pieces", "pool_of_program", "table", "view_inside", "pitched", "retained", "rows_whole", "rows_corner", "rows_none", "fill_edge",
                             "volume_whole", "peer_whole", "batch_whole", "layers_whole", "graph_built", "graph_unused", "cooperative_inside", "packed_inside",
                             "not_guarded", "ready_by_host", "used_after_reset")},
    "vector_stale": ["kernel write_words gets a pointer to freed memory: argument 1 points to 512 bytes inside a block of 1.00 MiB that was freed"],
    "table_freed": ["illegal address: ", "(kernel|at fault) +write_each", "argument 1  a block of 32 bytes, allocated by .*table_of"],
    "table_freed_before": ["illegal address: ", "(kernel|at fault) +write_each"],
    "view_behind": ["illegal address: ", "(kernel|at fault) +write_view", "argument 1  a block of 4.00 KiB", "argument 1  the end of a block of 4.00 KiB"],
    "rows_behind": ["cuMemcpy2D writes 6120 bytes, the last 1000 behind the end of a block of 20.00 KiB"],
    "fill_rows_behind": ["cuMemsetD2D8 writes 11240 bytes, the last 1024 behind the end", "cuMemsetD2D32 writes 11240 bytes, the last 1024 behind the end"],
    "volume_behind": ["cuMemcpy3D writes 736 bytes, the last 512 behind the end of a block of 2048 bytes"],
    "peer_behind": ["cuMemcpy3DPeer writes 2560 bytes, the last 512 behind the end of a block of 2048 bytes"],
    "batch_behind": ["cuMemcpyBatchAsync writes 2004 bytes, the last 4 behind the end of a block of 2000 bytes"],
    "layers_behind": ["cuMemcpy3DBatchAsync writes 2560 bytes, the last 512 behind the end of a block of 2048 bytes"],
    "graph_built_freed": ["kernel write_words of a graph gets a pointer to freed memory: argument 1 points to a block of 4.00 KiB that was freed"],
    "graph_copy_freed": ["illegal address: ", "(kernel|at fault) +of a graph"],
    "cooperative_freed": ["kernel write_byte gets a pointer to freed memory", "allocated by .*cooperative_freed", "illegal address: "],
    "extended_freed": ["kernel write_byte gets a pointer to freed memory", "allocated by .*extended_freed", "illegal address: "],
    "packed_freed": ["kernel write_byte gets a pointer to freed memory: argument 1 points to a block of 1000 bytes that was freed", "illegal address: "],
    **{name: ["1 byte was written right behind the end of a block of 1000 bytes", f"allocated by .*{site}", f"found +(at its free by .*{site}|after kernel write_byte)"]
       for name, site in (("context_ends_freed", "ends_damaged"), ("released_freed", "primary_ends"), ("reset_freed", "primary_ends"),
                          ("green_ends_freed", "green_ends"))},
    "green_outlived": [],
    "green_ends_live": ["1 byte was written right behind the end", "allocated by .*green_ends", "found +(at the end of the process|after kernel write_byte)"],
    **{name: ["1 byte was written right behind the end of a block of 1000 bytes", "allocated by", "found +(at the end of its context: the block was not freed|after kernel write_byte)"]
       for name in ("context_ends_live", "released_live", "reset_live")},
    "used_after_context": ["kernel write_words gets a pointer to freed memory", "allocated by .*used_after_context", "freed by +the end of its context"],
    "copied_after_context": ["cuMemcpyDtoH reads 1000 bytes at a block of 1000 bytes that was freed", "freed by +the end of its context"],
}


def guarded(place, program, value="all", policy="auto", before=0, source="planted", **settings):
    return place.run_shimmed([place.program(source), program, str(before)], policy, trace=False, GPUMEM_GUARD=value, **settings)


def check_said(done, patterns, label):
    """Each pattern has a line, in this order."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("gpumem: ")]
    at = 0
    for pattern in patterns:
        while at < len(lines) and not re.search(pattern, lines[at]):
            at += 1
        check(at < len(lines), f"{label}: nobody says '{pattern}':\n{done.stdout}{done.stderr}")
    check(patterns or not lines, f"{label}: a false report:\n{done.stderr}")
    check(len(lines) < 30, f"{label}: too much is said:\n{done.stderr}")


def found(place):
    """Each planted error is found under every policy; a program without one hears nothing."""
    for program, patterns in FOUND.items():
        for policy in ("auto", "observe", "async", "managed"):
            done = guarded(place, program, policy=policy)
            check(done.returncode == 0 and done.stdout.endswith("ok planted\n"), f"{program}: status {done.returncode}\n{done.stdout}{done.stderr}")
            check_said(done, patterns, f"{program} under {policy}")


def waiting(place):
    """After many frees freed blocks wait for others until they are unmapped. The same is found, and the calls give the same results:
    a launch or a copy that has the address of one of them is made when all are unmapped. What memory holds that was never written may differ."""
    def results(done):
        return done.returncode, re.sub("read .*", "read", done.stdout)
    for program, patterns in FOUND.items():
        first, late = (guarded(place, program, policy="observe", before=before) for before in (0, 80))
        check_said(late, patterns, f"{program}, late")
        check(results(late) == results(first), f"{program}, late: {late.stdout}, first {first.stdout}")


def uses(place):
    """Ways in which programs use memory, and the ends of contexts: what is right hears nothing, and what is wrong is found, of the first blocks of
    a process and of later ones, which wait to be unmapped."""
    for program, patterns in USES.items():
        for before, settings in ((0, {}), (80, {}), (0, {"policy": "async"}), (0, {"value": "all,blocking"})):
            done = guarded(place, program, before=before, source="guard_uses", **settings)
            label = f"{program}, {before} before, {settings}"
            check(done.returncode == 0 and done.stdout.endswith("ok uses\n"), f"{label}: status {done.returncode}\n{done.stdout}{done.stderr}")
            check_said(done, patterns, label)


REFUSED = {"planted": ["copy_behind", "copy_to_behind", "copy_rows_behind", "copy_freed", "fill_behind"],
           "guard_uses": ["rows_behind", "fill_rows_behind", "volume_behind", "peer_behind", "batch_behind", "layers_behind"]}


def refused(place):
    """A copy or fill that leaves a block returns the error that it returns natively. It is not made, so nothing else fails."""
    for source, programs in REFUSED.items():
        for program in programs:
            for before in (0, 80):
                done = guarded(place, program, policy="observe", before=before, source=source)
                check(re.match(r"\w+:(?: (?:copy|fill) 1| (?:wait|free) 0)+\n", done.stdout), f"{program}: {done.stdout}{done.stderr}")


EXPORTED = ["{} fails because a block of 4.00 KiB is guarded: guarded memory cannot be exported", "called by .*{}", "allocated by .*{}", "try "]


def exported(place):
    """Where not all blocks are guarded, the first call that exports memory, or asks whether it can, ends that for cudaMalloc; so does a library
    that exports the buffers of its callers. What is refused is named, with its block."""
    def run(program, value, **settings):
        return guarded(place, program, value, policy="observe", source="guard_uses", **settings)
    for _ in range(5):
        for program in ("exported_later", "asked_first"):
            done = run(program, "1/2")
            check("exported 40\n" in done.stdout, f"{program}: samples break it: {done.stdout}{done.stderr}")
            check(done.stderr.count("no more samples of cudaMalloc") == 1, f"{program}: {done.stderr}")
            check(" first 0" in done.stdout or program != "exported_later" or "is guarded" in done.stderr, f"{program}: {done.stdout}{done.stderr}")
    if is_simulated(place):
        library = place.fresh() / "libmpi.so"
        shutil.copy(place.options.programs / "libnccl.so", library)
        done = run("exported_all", "1/2", preload=[place.options.shim, library])
        check("exported 40\n" in done.stdout, f"with MPI: {done.stdout}{done.stderr}")
        check_said(done, ["GPUMEM_GUARD=1/2: MPI, UCX or a similar library is loaded and may export memory, .*: no more samples of cudaMalloc"], "with MPI")
    for program, call in (("exported", "cuIpcGetMemHandle"), ("marked", "cuPointerSetAttribute")):
        check_said(run(program, "all"), [line.format(call if line.startswith("{}") else program) for line in EXPORTED], f"{program}, all")
    native, done = place.run_native([place.program("guard_uses"), "retained"]), run("retained", "all")
    check(done.stdout == native.stdout and not done.stderr, f"retained: {done.stdout}{done.stderr}, natively {native.stdout}")
    native = place.run_native([place.program("guard_uses"), "asked"])
    done = run("asked", "all")
    check(done.stdout == native.stdout and not done.stderr, f"{done.stdout}{done.stderr}, natively {native.stdout}")


def races(place):
    """What no call orders may be ordered by a flag in memory: it is no error, and can be switched off."""
    for program in ("before_ready", "ready_by_flag", "freed_in_use", "loaded_before_ready", "copied_before_ready"):
        command = [place.options.gpumem, "run", f"--library={place.options.shim}", "--guard=all", "--", place.program("planted"), program]
        done = place.run(command)
        check("possible race: " in done.stderr and re.search(r"memory errors +none found", done.stderr), done.stderr)
        check(re.search(r"possible races +1\b", done.stderr) and done.returncode == 0, done.stderr)
        check_said(guarded(place, program, "all,noraces"), [], f"{program}, noraces")
    check_said(guarded(place, "after_free_in_order", "all,noraces"), FOUND["after_free_in_order"], "noraces")


def cached(place):
    """PyTorch's cache hides errors between tensors: it is said once, unless it is off."""
    library = place.fresh() / "libc10_cuda.so"
    shutil.copy(place.options.programs / "libnccl.so", library)
    for settings, patterns in (({}, ["PyTorch cuts tensors from blocks of its cache, .*; set PYTORCH_NO_CUDA_MEMORY_CACHING=1"]),
                               ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, []), ({"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, [])):
        done = guarded(place, "none", preload=[place.options.shim, library], **settings)
        check_said(done, patterns, f"PyTorch, {settings}")
    check_said(guarded(place, "none", "off", preload=[place.options.shim, library]), [], "PyTorch, off")


def silent(place):
    """Without the option nothing is guarded and nothing is said."""
    for program in ("behind_byte", "copy_behind", "none"):
        done = place.run_shimmed([place.program("planted"), program], "auto", trace=False)
        check(not done.stderr, f"{program}: {done.stderr}")
    if is_simulated(place):  # the kernel never runs: the end of the process does not wait for it
        check_said(guarded(place, "never_freed", SIMCUDA_STREAMS="manual"), [], "a process that ends before its kernel")


def blocking(place):
    """Of several kernels in flight, the one at fault is named."""
    done = guarded(place, "one_of_many", "all,blocking")
    check_said(done, ["illegal address: ", "at fault +write_words", "argument 1  a block of 8.00 KiB, allocated by .*one_of_many"], "blocking")
    check_said(guarded(place, "freed_in_use", "all,blocking"), FOUND["freed_in_use"], "freed in use, blocking")
    check("try  " not in done.stderr and "  kernel  " not in done.stderr, done.stderr)
    done = guarded(place, "beside_by_first", "all,blocking")
    check_said(done, ["1 byte was written right behind the end of a block of 1000 bytes", "allocated by .*beside_by_first",
                      "found +after kernel write_byte, launched by .*beside_by_first", "1 byte was written 4 bytes before the start of a block of 1000 bytes"],
               "beside a block, blocking")
    check(done.stderr.count("written") == 2, done.stderr)
    if not is_simulated(place):
        return
    done = guarded(place, "one_of_many", SIMCUDA_STREAMS="manual")
    check_said(done, ["illegal address: .*cuCtxSynchronize", "kernel +write_byte", "kernel +write_words", "argument 1  a block of 8.00 KiB",
                      "try +GPUMEM_GUARD=all,blocking"], "several kernels")


def launches(place):
    """Equal launches are said once, with their number; those that were not kept are counted."""
    if not is_simulated(place):
        return
    done = guarded(place, "many_launches", SIMCUDA_STREAMS="manual")
    check_said(done, ["illegal address: ", "kernel +write_words, launched by", "kernel +write_byte, launched 50 times by", "kernel +write_words, launched 50 times by"],
               "many launches")
    done = guarded(place, "many_different", SIMCUDA_STREAMS="manual")
    check("  further       16 earlier launches may not have ended" in done.stderr, done.stderr)
    check(done.stderr.count("kernel          write_words") == 24, done.stderr)


def failure(place):
    """A launch failure, as a copy of a graph has it on a card, is explained like an illegal address."""
    if is_simulated(place):
        for error, words in ((716, "misaligned address: "), (717, "invalid address space: "), (718, "invalid program counter: ")):
            check_said(guarded(place, "none", SIMCUDA_FAIL=f"cuCtxSynchronize:1:{error}"), [words, "kernel +write_words"], words)
        done = guarded(place, "none", SIMCUDA_FAIL="cuCtxSynchronize:1:719")
        check_said(done, ["launch failure: a kernel, or a copy, may have used memory outside of all blocks; cuCtxSynchronize returned the error",
                          "kernel +write_words", "argument 1  a block of 1000 bytes"], "launch failure")


def sampled(place):
    """Where one of two blocks is guarded, an error in one of these is found as where all are."""
    for policy in ("observe", "cache", "async"):
        for before in (0, 80):
            done = guarded(place, "sampled", "1/2", policy=policy, before=before)
            check_said(done, ["kernel write_words gets a pointer to freed memory: argument 1 points to a block of 4.00 KiB that was freed", "launched by .*sampled",
                              "allocated by .*sampled", "freed by .*sampled", "illegal address: ", "seen by .*sampled", "(kernel|at fault) +write_words, launched by",
                              "argument 1  a block of 4.00 KiB, allocated by .*sampled"], f"sampled under {policy}, {before} before")


class Pairs:
    """A program of pairs under the shim that waits for their number."""

    def __init__(self, place, policy, value):
        self.shim, self.log = place.options.shim, place.options.work / f"calls-{policy}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        environment = place.environment(self.log.parent) | {"LD_PRELOAD": str(place.options.shim), "GPUMEM_POLICY": policy, "GPUMEM_GUARD": value,
                                                            "SIMCUDA_LOG": str(self.log)}
        self.process = subprocess.Popen([sys.executable, str(BENCH / "programs" / "driver_pairs.py"), "4096"], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.native()  # it has started

    def native(self):
        """How many of 100 pairs reach the driver's allocator."""
        before = self.log.read_text().count("cuMemAlloc_v2")
        print(100, file=self.process.stdin, flush=True)
        self.process.stdout.readline()
        return self.log.read_text().count("cuMemAlloc_v2") - before

    def threads(self):
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()))

    def switch(self):
        sys.path.insert(0, str(BENCH))
        import samples
        return samples.Switch(self.shim, self.process.pid)


def switched(place):
    """The bench switches samples off and on in a process (tools/bench/samples.py)."""
    pairs = Pairs(place, "observe", "1/2")
    switch = pairs.switch()
    numbers = [pairs.native()]
    for on in (False, True, False):
        switch.turn(on)
        numbers.append(pairs.native())
    pairs.process.communicate()
    check(all(20 < number < 80 for number in numbers[::2]) and numbers[1::2] == [100, 100], f"native allocations of 100: {numbers}")


def closers(place):
    """A thread closes samples, unless the program's other allocations are calls of the driver, which would wait for it."""
    for policy, threads in (("observe", 1), ("cache", 2)):
        pairs = Pairs(place, policy, "1/1000000")
        switch = pairs.switch()
        switch.every = 4
        switch.turn(True)
        pairs.native()
        found = pairs.threads()
        pairs.process.communicate()
        check(found == threads, f"{found} threads under {policy}")


def begin(place):
    """Blocks at the beginning of their mapping: the byte before faults, and the bytes behind hold the pattern."""
    check_said(guarded(place, "before_byte", "all,begin"), ["illegal address: .*cuMemFree", "kernel +write_byte", "argument 1  a block of 1000 bytes"],
               "before, begin")
    if is_simulated(place):  # the free itself waits for the kernel
        check_said(guarded(place, "before_byte", "all,begin", SIMCUDA_STREAMS="manual"), ["illegal address: .*cuMemFree", "kernel +write_byte"],
                   "before, begin, at the free")
    check_said(guarded(place, "behind_byte", "all,begin"), ["1 byte was written right behind the end of a block of 1000 bytes"], "behind, begin")
    check_said(guarded(place, "none", "all,begin"), [], "none, begin")


def aligned(place):
    """A smaller alignment, where the program chooses one, leaves fewer bytes behind a block, so that reads behind it fault, too. A side and an
    alignment at random, for samples, are never less than what the option says, nor than native memory's without it."""
    fault = ["illegal address: ", "kernel +copy_word, launched by .*read_at", "argument 2  (8 bytes behind )?the end of a block of 1000 bytes"]
    for program, value, patterns in (("read_behind", "all", []), ("read_behind", "all,align=512", []), ("read_behind", "all,align=16", []),
                                     ("read_behind", "all,align=4", fault), ("read_behind", "all,align=1", fault),
                                     ("read_behind_sixteen", "all,align=16", fault), ("behind_byte", "all,align=16", FOUND["behind_byte"]),
                                     ("before_byte", "all,align=1", FOUND["before_byte"]), ("read_last", "all,align=1", [])):
        check_said(guarded(place, program, value), patterns, f"{program}, {value}")
    for value, step, least in (("1/2", 512, 1), ("1/2,align=1", 1, 2), ("1/2,align=16", 16, 2)):
        places = {int(word) for word in re.findall(" ([0-9]+)", guarded(place, "sides", value, policy="observe").stdout)}
        ends = {at for at in places if at > (2 << 20) - 4001 - 512}
        check(0 in places and ends and all(at % step == 0 for at in ends), f"{value}: {places}")
        check(len({at & -at for at in ends}) >= least, f"{value}: {places}")


def slack(place):
    """All bytes of a mapping beside a block are compared for the first blocks, for samples, and while kernels block; those near it for every block."""
    before, behind = (f"1 byte was written {distance} bytes {where} of a block of 1000 bytes"
                      for distance, where in (((1 << 20) - 1, "before the start"), ((1 << 20) - 1000, "behind the end")))
    for program, value, number, patterns in (("megabyte_before", "all", 0, [before]), ("megabyte_behind", "all,begin", 0, [behind]),
                                             ("megabyte_before", "all,blocking", 80, [before]), ("megabyte_before", "all", 100, [])):
        check_said(guarded(place, program, value, before=number), patterns, f"{program}, {value}, {number} before")
    check_said(guarded(place, "pitched", "all,begin", GPUMEM_FILL="poison", source="guard_uses"), [], "rows that are filled")


def written(place):
    """An allocation waits until its pattern is written, which would cover what the program damages meanwhile."""
    log = place.options.work / "written.log"
    for value, seed in (("all", 1), ("all,begin", 25)):
        done = guarded(place, "behind_byte_done", value, SIMCUDA_STREAMS=f"random:{seed}", SIMCUDA_LOG=str(log))
        check_said(done, ["1 byte was written right behind the end of a block of 1000 bytes"], f"behind, {value}")
        calls = log.read_text()
        calls = calls[calls.index("cuMemsetD8Async"):]
        stream = re.search(r"hStream=(\S+)", calls)[1]
        calls = calls[:calls.index("cuLaunchKernel")]
        check(f"cuStreamQuery 0 hStream={stream}" in calls, f"{value}: {calls}")


def rules(place):
    """Placement rules guard by size, and by what else they know."""
    done = guarded(place, "behind_byte", "off", policy="static:size=1000->guard")
    check_said(done, FOUND["behind_byte"], "by a rule")
    done = guarded(place, "copy_behind", "off", policy="static:size>=1M->guard")
    check(not done.stderr, f"a block that no rule guards: {done.stderr}")
    done = guarded(place, "after_free", "off", policy="static:*->guard")
    check_said(done, FOUND["after_free"], "by a rule, freed")


def poison(place):
    """A read of memory that was never written is not found; poison shows it, also in memory that a former block had."""
    done = guarded(place, "never_written", GPUMEM_FILL="poison")
    check_said(done, [], "never written")
    (read,) = re.findall("read (0x[0-9a-f]+)", done.stdout)
    check(len(set(re.findall("..", read[2:]))) == 1 and read != "0x0", done.stdout)


def calls(place):
    """A pair maps, opens, copies the pattern and unmaps, and waits twice: its free, as natively, and at most once for the pattern. Memory is
    created for the first blocks and for those that wait until they are unmapped. Blocks are closed by their frees while kernels
    block."""
    log = place.options.work / "calls.log"
    def made(value, before):
        guarded(place, "many_freed", value, policy="observe", before=before, SIMCUDA_LOG=str(log))
        return [line.split()[1] for line in log.read_text().splitlines()]
    pairs, waiting, further = 400, 64, 64 * 16  # the bytes far from the first 64 blocks
    names = made("all", 100)
    new = names.count("cuMemCreate")
    check(new <= waiting + 16, f"{new} handles are created")
    for name, most in (("cuMemRelease", 0), ("cuMemsetD8Async", 2 * new), ("cuMemMap", pairs + new), ("cuMemSetAccess", pairs + new),
                       ("cuMemUnmap", pairs), ("cuMemcpyAsync", pairs + further), ("cuMemcpy2DAsync_v2", 0), ("cuEventSynchronize", pairs), ("cuStreamSynchronize", pairs + further)):
        check(names.count(name) <= most + 5, f"{name}: {names.count(name)} calls of {pairs} pairs, {new} handles are created")
    check(names.count("cuMemUnmap") >= pairs - 5, "the end of the process closes what waits")
    check(made("all,blocking", 100).count("cuStreamSynchronize") >= 400, "while kernels block, no block waits")


def wrong(place):
    """A value that is not accepted is named; the program runs unguarded."""
    done = guarded(place, "behind_byte", "1/0")
    check_said(done, ['GPUMEM_GUARD=1/0: "1/0" is not accepted: write off, all or 1/N'], "wrong value")
    refused = place.run([place.options.gpumem, "run", "--guard=sometimes", "--", "true"])
    check(refused.returncode == 2 and "GPUMEM_GUARD=sometimes" in refused.stderr and not refused.stdout, refused.stderr)


def counted(place):
    """The closing lines say how many were guarded; the results of a program are as without."""
    def run(*options):
        command = [place.options.gpumem, "run", f"--library={place.options.shim}", *options, "--", place.program("threads")]
        return place.run(command)
    done = run("--guard=all")
    check(done.returncode == 0 and "memory errors    none found" in done.stderr, done.stderr)
    (count, part) = re.search(r"guarded +(\d+), ([\d.]+) % of the allocations", done.stderr).groups()
    check(int(count) > 50 and float(part) > 90, done.stderr)
    sampled = [run("--guard=1/10").stderr for _ in range(5)]  # one run may guard 1 of its 96 by chance
    parts = [float(part) for text in sampled for part in re.findall(r"guarded +\d+, ([\d.]+) % of the allocations", text)]
    check(1 < sum(parts) / len(sampled) < 30, f"{parts} {sampled[0]}")
    leaks = place.run([place.options.gpumem, "run", f"--library={place.options.shim}", "--guard=all", "--", place.program("planted"), "leaked"])
    check(re.search(r"leaked +1000 B in 1 block", leaks.stderr), leaks.stderr)
    check("guarded" not in run().stderr, "unguarded runs do not speak of it")


def closing(place, program, *options):
    """The run of a planted program, and what its closing line says of memory errors."""
    done = place.run([place.options.gpumem, "run", f"--library={place.options.shim}", "--guard=all", *options, "--", place.program("planted"), program])
    (line,) = re.findall(r"gpumem: +memory errors +(.*)", done.stderr)
    return done, line


def ends(place):
    """One number counts the errors of all kinds. Of a process that ended without a word, blocks were not compared."""
    for program in ("freed_twice", "freed_inside", "freed_as_host", "host_freed", "behind_byte", "never_freed", "copy_behind", "after_free", "graph_freed"):
        _, line = closing(place, program)
        check(line == "1", f"{program}: {line}")
    _, line = closing(place, "behind_element")
    check(line == "1; the bytes beside 1 block were not compared", f"a live block of a device that cannot be read: {line}")
    for program in ("none", "leaked", "ready_by_event", "before_ready"):
        _, line = closing(place, program)
        check(line == "none found", f"{program}: {line}")
    for program in ("ends_by_abort", "ends_by_exit", "ends_by_kill", "ends_by_exec"):
        _, line = closing(place, program)
        check(line == "none found; the bytes beside 1 block were not compared: no normal exit", f"{program}: {line}")


def status(place):
    """gpumem run fails where memory errors were found, unless the program fails itself or the option says otherwise."""
    for program, options, expected in (("behind_byte", [], 1), ("freed_twice", ["--guard-exit=7"], 7), ("behind_byte", ["--guard-exit=0"], 0),
                                       ("none", [], 0), ("before_ready", [], 0), ("exits_by_five", [], 5), ("ends_by_exit", [], 0)):
        done, line = closing(place, program, *options)
        check(done.returncode == expected, f"{program} {options}: status {done.returncode}, {line}")
        check(("--guard-exit=0 keeps" in done.stderr) == (expected in (1, 7)), done.stderr)
    for value in ("256", "-1", "", "x"):
        done = place.run([place.options.gpumem, "run", f"--guard-exit={value}", "--", "true"])
        check(done.returncode == 2 and f"--guard-exit '{value}' is not a number from 0 to 255" in done.stderr, done.stderr)


def recorded(place):
    """A trace has each error, with its text and its call sites. What follows from an error, and possible races, do not count."""
    def lines(*parts):
        return ["    " + part for part in parts]
    # each error, then lines of the report, and the status of a check
    runs = {"after_free": (["use-after-free at .*", *lines("kernel write_words gets a pointer to freed memory: .*", "call .*", "allocated by .*", "freed by .*"),
                            "device-fault at .*, follows from the one before", *lines("illegal address: .*; kernel write_words")], 1, 3),
            "behind_byte": (["out-of-bounds at .*", *lines("1 byte was written right behind the end of a block of 1000 bytes", "allocated by .*", "freed by .*")], 1, 3),
            "never_freed": (["out-of-bounds at .*", *lines("1 byte was written 1 bytes behind .*", "allocated by .*")], 1, 3),
            "copy_behind": (["out-of-bounds at .*", *lines("cuMemcpyDtoH reads 2000 bytes, .*", "call .*copy_behind.*")], 1, 3),
            "freed_twice": (["wrong-free at .*", *lines("cuMemFree of 0x.*, which was freed before: .*", "call .*", "allocated by .*", "freed by .*")], 1, 3),
            "freed_as_host": (["wrong-free at .*", *lines("cuMemFreeHost of .*", "call .*freed_as_host.*", "allocated by .*")], 1, 3),
            "before_ready": (["possible-race at .*", *lines("possible race: .*", "call .*", "allocated by .*before_ready.*")], 0, 0),
            "none": (["none: .*"], None, 0)}
    for name in ("e.gmt", "e.csv"):
        for program, (patterns, count, status) in runs.items():
            trace = place.fresh() / name
            place.run([place.options.gpumem, "run", f"--library={place.options.shim}", "--guard=all", f"--trace={trace}", "--", place.program("planted"), program])
            done = place.run([place.options.gpumem, "report", "--memory-errors", "--fail-on-error", trace])
            wanted = "\n".join(f"  {pattern}(?:\n    .*)*?" if pattern[0] != " " else pattern for pattern in patterns)
            if is_simulated(place) or program != "after_free":
                check(re.search(wanted, done.stdout), f"{program}: {wanted}\n{done.stdout}")
            check(count is None or f"  memory errors: {count};" in done.stdout, f"{program}: {done.stdout}")
            check(done.returncode == status, f"{program}: status {done.returncode}, {done.stderr}")


def logged(place):
    """The messages go to a file, also after the program changed its folder; where that is not possible, to standard error."""
    folder = place.fresh()
    name = folder / "%p.log"
    done = guarded(place, "behind_byte", GPUMEM_LOG_FILE=str(name))
    (log,) = folder.glob("*.log")
    check(not done.stderr and "1 byte was written right behind" in log.read_text(), f"{done.stderr}{log.read_text()}")
    for value in (str(folder / "none" / "x.log"), "x%q"):
        done = guarded(place, "behind_byte", GPUMEM_LOG_FILE=value)
        check("1 byte was written right behind" in done.stderr, f"{value}: {done.stderr}")
    log = folder / "all.log"
    for _ in range(2):
        place.run([place.options.gpumem, "run", f"--library={place.options.shim}", "--guard=all", f"--log-file={log}", "--", place.program("planted"), "behind_byte"])
    check(log.read_text().count("1 byte was written right behind") == 2, log.read_text())


UNHARMED = ["runtime_basic", "driver_linked", "driver_dlopened", "threads", "fork_child", "leaks", "managed", "advice", "async", "pitch", "pools",
            "host_memory", "arrays", "vmm", "per_thread_stream", "context_reset", "capture", "capture_memory", "lost_capture", "freed_pointers",
            "free_memory", "graph_memory", "two_devices", "peer_copies", "two_sites", "mapped", "relies_order", "relies_host"]
REPORT = re.compile("illegal address|bytes? (was|were) written|pointer to freed memory| (reads|writes) [0-9]+ bytes")


def unharmed(place):
    """Programs without such an error run as natively and hear nothing, whatever part of their blocks is guarded."""
    for program in UNHARMED:
        devices = {"SIMCUDA_DEVICES": "2"} if program in ("two_devices", "peer_copies") else {}
        native = place.run([place.program(program)], **devices)
        for value, policy in (("all", "auto"), ("all", "async"), ("1/3,align=16", "cache"), ("all,begin", "observe"), ("all,align=16", "managed")):
            done = place.run_shimmed([place.program(program)], policy, trace=False, GPUMEM_GUARD=value, **devices)
            label = f"{program}, guard {value}, policy {policy}"
            check((done.returncode, done.stdout) == (native.returncode, native.stdout),
                  f"{label}: status {done.returncode}, natively {native.returncode}\n{done.stdout}{done.stderr}")
            check(not REPORT.search(done.stderr), f"{label}: a false report:\n{done.stderr}")


def shortage(place):
    """Where memory is short, fewer blocks are guarded, those that wait are closed, and the program gets all it gets natively."""
    command = [place.program("planted"), "many_live", "80"]  # 80 pairs before it are guarded
    native = place.run_native(command, SIMCUDA_MEMORY="256M")
    done = place.run([place.options.gpumem, "run", f"--library={place.options.shim}", "--guard=all", "--", *command], SIMCUDA_MEMORY="256M")
    check(done.stdout == native.stdout and done.returncode == 0, done.stdout + done.stderr)
    guards, refused = map(int, re.search(r"guarded +(\d+), .*allocations; (\d+) more were not", done.stderr).groups())
    check(10 < guards - 80 < 64 and refused > 100, done.stderr)
    limited = place.run([place.options.gpumem, "run", f"--library={place.options.shim}", "--guard=all", "--limit=200M", "--", *command])
    check(limited.stdout == native.stdout and limited.returncode == 0, limited.stdout + limited.stderr)


def ranges(place):
    """The addresses of freed blocks come back when the budget of addresses ends; nothing fails. A late use may be of an earlier block there."""
    command = [place.program("planted"), "many_freed"]
    done = place.run([place.options.gpumem, "run", f"--library={place.options.shim}", "--guard=all", "--guard-range=64M", "--", *command])
    check(done.returncode == 0 and re.search(r"guarded +300, ", done.stderr), done.stdout + done.stderr)
    check_said(guarded(place, "after_free", before=300), FOUND["after_free"], "after few frees")
    stale = ["kernel write_words gets a pointer to freed memory", "freed by", "or +one of [0-9]+ earlier blocks at these addresses: try GPUMEM_GUARD_RANGE",
             "illegal address: ", "or +one of [0-9]+ earlier blocks at these addresses"]
    done = guarded(place, "after_free", before=300, GPUMEM_GUARD_RANGE="64M")
    check_said(done, stale, "after many frees")
    check("earlier blocks" not in guarded(place, "after_free", before=300).stderr, "addresses that no block had before")


CASES = {case.__name__: case for case in (found, waiting, uses, refused, sampled, exported, races, cached, switched, closers, silent, blocking, launches, failure, begin, aligned, slack, written, rules, poison, calls, wrong, counted, ends, status, recorded, logged, unharmed, shortage, ranges)}


if __name__ == "__main__":
    sys.exit(run_case(CASES, "--gpumem"))
