"""GPUMEM_SUSPEND: memory leaves and comes back under programs that do not know, whatever fails meanwhile (suspend.c)."""

import itertools

from place import check

ON = {"GPUMEM_SUSPEND": "on"}
STREAMS = ("immediate", "random:7")
# Every function that a suspend or resume calls, and those around them.
STEPS = ("cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemAddressFree", "cuMemHostAlloc",
         "cuStreamCreate", "cuStreamSynchronize", "cuMemcpyAsync", "cuMemsetD8Async", "cuCtxRecordEvent", "cuEventQuery",
         "cuEventCreate", "cuCtxPushCurrent_v2", "cuMemFreeHost")  # fmt: skip
OF_KERNEL = ("cuModuleLoadData", "cuModuleGetFunction")  # that computes checksums; the program itself has one, too
OF_BACKING = ("cuLaunchKernel", "cuMemHostRegister_v2", "cuMemHostUnregister")
OFTEN = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemcpyAsync", "cuEventQuery")  # in each suspend

MAPPED_STEPS = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemAddressReserve", "cuMemAddressFree", "cuMemcpyAsync")
TRIED_TWICE = ("cuMemUnmap", "cuMemRelease", "cuMemAddressFree")  # else memory would leak


def suspended(place, arguments, policy="auto", warned=False, program="suspend", **more):
    """The program's own checks hold natively and while its memory comes and goes."""
    command = [place.program(program), *arguments.split()]
    label = f"suspend {arguments} under {policy} {more}"
    done = place.run_shimmed(command, policy, trace=False, **{**ON, **more})
    check(done.returncode == 0 and done.stdout == "ok suspend\n", f"{label}: {done.returncode}\n{done.stdout}{done.stderr}")
    check(warned or not done.stderr, f"{label}: {done.stderr}")
    return done


def single(name, words=""):
    def run(place):
        place.run_native([place.program("suspend"), name])
        for policy, streams in (("observe", STREAMS[0]), ("cache", STREAMS[1]), ("auto", STREAMS[0]), ("auto", STREAMS[1])):
            done = suspended(place, name, policy, bool(words), SIMCUDA_STREAMS=streams)
            check(words in done.stderr, f"{name}: '{words}' is not said:\n{done.stderr}")

    return run


def random_programs(place):
    for seed in range(1, 4):
        place.run_native([place.program("suspend"), "random", str(seed)])
        for policy, batch in (("observe", "16"), ("auto", "1")):
            suspended(place, f"random {seed}", policy, GPUMEM_FENCE_BATCH=batch)
    suspended(place, "random 2", SUSPEND_TO=str(place.fresh()))


def failures(place):
    """A call of each step fails, the first one or one between others: nothing is lost, nothing hangs."""
    for step, n in [(step, 1) for step in (*STEPS, *OF_BACKING)] + [(step, 2) for step in OF_KERNEL] + [(step, 7) for step in OFTEN]:
        arguments = {"SIMCUDA_FAIL": f"{step}:{n}:2:1"}
        done = place.run_shimmed([place.program("suspend"), "failing"], "auto", trace=False, **{**ON, **arguments})
        text = done.stdout + done.stderr
        # The program itself makes some of these calls, by the runtime's way of memory: their error is its own.
        own = "cuMemAlloc(" in text or "cuMemcpy" in text.replace("cuMemcpyAsync", "") or "cuMemsetD8(" in text
        check(done.returncode == 0 or own, f"{arguments}: {done.returncode}\n{text}")


def unchecked(place):
    """Without checksums everything is copied each time, which is said once."""
    for step in ("cuModuleLoadData:2", "cuLaunchKernel:1"):
        done = suspended(place, "failing", warned=True, SIMCUDA_FAIL=f"{step}:2:1000")
        check(done.stderr.count("the device computes no checksums (error 2)") == 1, f"{step}: {done.stderr}")


def backings(place):
    """What the host keeps of memory that is back."""
    for backing, streams in itertools.product(("kept", "dropped", "registered"), STREAMS):
        suspended(place, backing, "observe", SIMCUDA_STREAMS=streams, GPUMEM_SUSPEND_BACKING=backing)


def files(place):
    """The contents lie in files, whatever fails."""
    folder = place.fresh()
    for arguments in ("file", "ends"):
        suspended(place, arguments, SUSPEND_TO=str(folder))
    for step in ("cuMemcpyAsync:3", "cuLaunchKernel:2"):
        suspended(place, "failing", warned=True, SUSPEND_TO=str(folder), SIMCUDA_FAIL=f"{step}:2:1")
    check(not list(folder.iterdir()), f"files are left over: {list(folder.iterdir())}")


def mapped(place):
    """Memory that the program creates and maps itself."""
    for name in ("life", "away", "shapes", "access", "stays", "arrays", "tags", "full", "orphaned", "threads"):
        place.run_native([place.program("suspend_mapped"), name], SIMCUDA_DEVICES="2")
        suspended(place, name, "auto", name == "full", "suspend_mapped", SIMCUDA_DEVICES="2")
    suspended(place, "ranges", "auto", False, "suspend_mapped", NVTX_INJECTION64_PATH=str(place.options.shim))


def segments(place):
    """As PyTorch's expandable segments."""
    for seed in range(1, 3):
        place.run_native([place.program("suspend_mapped"), "segment", str(seed)])
        suspended(place, f"segment {seed}", "auto", False, "suspend_mapped", SIMCUDA_STREAMS=STREAMS[seed % 2])


def mapped_failures(place):
    """Each call of a suspend and resume fails in turn, by its number."""
    for step in MAPPED_STEPS:
        for n in (1, 2, 3, 5, 8):
            times = 2 if step in TRIED_TWICE else 1
            suspended(place, "failing", "auto", True, "suspend_mapped", SUSPEND_FAILS=f"{step}:{n}:2:{times}")


def off(place):
    """Without the option nothing takes part."""
    done = place.run_shimmed([place.program("suspend"), "off"], "auto", trace=False)
    check(done.returncode == 0, f"off: {done.stdout}{done.stderr}")
    for other in ({"GPUMEM_FILL": "zero"}, {"GPUMEM_GUARD": "all"}, {"GPUMEM_GROW": "vmm"}):
        done = place.run_shimmed([place.program("suspend"), "off"], "auto", trace=False, **ON, **other)
        check(done.returncode == 0 and "it is off" in done.stderr, f"{other}: {done.stdout}{done.stderr}")


SUSPEND = {
    **{f"suspend_{name}": single(name) for name in ("capture", "tags", "aside", "waits", "busy", "ends", "fork", "queries", "threads")},
    "suspend_full": single("full", "cannot resume yet"),
    "suspend_exported": single("exported", "which other processes cannot open"),
    "suspend_random": random_programs,
    "suspend_failures": failures,
    "suspend_backings": backings,
    "suspend_files": files,
    "suspend_other": single("other", "came back from the host with other contents"),
    "suspend_unchecked": unchecked,
    "suspend_off": off,
    "suspend_mapped": mapped,
    "suspend_segments": segments,
    "suspend_mapped_failures": mapped_failures,
}
