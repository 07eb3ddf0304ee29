"""Programs that load other libraries beside the shim: second runtimes, other interposers, AddressSanitizer."""

import pathlib
import re
import shutil
import subprocess

from place import check, check_same_output
from traces import check_trace, read_trace


def resolved_runtime(place):
    """Path of the libcudart that the programs load."""
    listing = subprocess.run(
        ["ldd", place.program("runtime_basic")],
        env=place.environment(place.fresh()),
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"libcudart\.so\S* => (/\S+)", listing.stdout)
    check(found, f"runtime_basic does not find its runtime:\n{listing.stdout}")
    return found.group(1)


def two_copies(place):
    original = resolved_runtime(place)
    copy = place.fresh() / "libcudart_second.so"
    shutil.copyfile(original, copy)
    return [original, str(copy)]


def all_or_nothing(program, preloads, arguments=None, linked=False):
    """Where the shim may be passed by: the program works, and its calls are all in the trace or none is."""

    def case(place):
        command = [place.program(program)] + (arguments(place) if arguments else [])
        native = place.run_native(command)
        for policy in ("observe", "auto"):
            for preload in preloads(place):
                label = f"{program} under {policy} with {':'.join(pathlib.Path(p).name for p in preload)}"
                done = place.run_shimmed(command, policy, preload=preload)
                check_same_output(native, done, label)
                if read_trace(done.folder):
                    check_trace(done, policy, 0, label)
                else:
                    check(not linked, f"{label}: the shim saw nothing")
                check_other(place, preload, done, label, looks_up=not linked)

    return case


def other_library(place):
    return str(place.options.programs / "libother_interposer.so")


def check_other(place, preload, done, label, looks_up):
    """A library that was preloaded beside the shim is still there, and still asked where it comes first."""
    if other_library(place) not in [str(library) for library in preload]:
        return
    log = done.folder / "other.log"
    check(log.exists(), f"{label}: the other preloaded library is gone")
    if looks_up and str(preload[0]) == other_library(place):
        check(int(log.read_text().splitlines()[0]) > 0, f"{label}: the other library was not asked")


def behind_and_before(place):
    other = other_library(place)
    return [(other, place.options.shim), (place.options.shim, other)]


def only_shim(place):
    return [(place.options.shim,)]


def address_sanitizer(place):
    """A program under AddressSanitizer, with its library before the shim or behind it."""
    command = [place.program("runtime_asan")]
    quiet = "detect_leaks=0:protect_shadow_gap=0"
    native = place.run_native(command, ASAN_OPTIONS=quiet)
    listing = subprocess.run(["ldd", command[0]], capture_output=True, text=True, check=True)
    library = re.search(r"libasan\S* => (/\S+)", listing.stdout).group(1)
    for policy in ("observe", "auto"):
        for preload, asan in (
            ((library, place.options.shim), quiet),
            ((place.options.shim,), quiet + ":verify_asan_link_order=0"),
        ):
            label = f"AddressSanitizer under {policy}, {len(preload)} libraries"
            done = place.run_shimmed(command, policy, preload=preload, ASAN_OPTIONS=asan)
            check_same_output(native, done, label)
            check_trace(done, policy, 0, label)
