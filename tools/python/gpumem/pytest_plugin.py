"""A plug-in of pytest: the GPU memory of a test has limits.

    @pytest.mark.limit_gpu_memory("64MiB")      # largest live bytes, beyond what was live before the test
    @pytest.mark.limit_gpu_leaks("0", stacks=8) # bytes live after the test, beyond what was live before it

The tests run under gpumem: `gpumem run -- pytest`. Elsewhere a test with such a mark is skipped. Sizes are as in all options
of gpumem. A test with a mark is recorded into a file, which is removed where the limits hold; the message of a failure names
it for `gpumem report`, with the call sites of the largest blocks.
"""

import json
import os
import re
import tempfile

import pytest

import gpumem

MARKS = ("limit_gpu_memory", "limit_gpu_leaks")
UNITS = {unit: (1000 if unit.endswith("B") and "i" not in unit else 1024) ** power
         for power, letter in enumerate("KMGT", 1) for unit in (letter, letter + "iB", letter + "B")}


def pytest_configure(config):
    config.addinivalue_line("markers", "limit_gpu_memory(size): fail when a test's peak of live GPU memory is above size")
    config.addinivalue_line("markers", "limit_gpu_leaks(size): fail when a test leaves more GPU memory than size")


def bytes_of(text):
    """Bytes of a size such as 4096, "64MiB", "1.5G" or "1GB"."""
    match = re.fullmatch(r"(\d+)(\.\d+)?([A-Za-z]*)", str(text).replace(" ", ""))
    unit = match and (match[3][:1].upper() + match[3][1:])
    if not match or (unit and unit not in UNITS) or (match[2] and not unit):
        raise pytest.UsageError(f"'{text}' is not a number of bytes; accepted: 4096, 512M, 1.5GiB")
    return int(float(match[1] + (match[2] or "")) * UNITS.get(unit, 1))


def limits_of(item):
    """(largest peak, largest leak) in bytes, None = no limit; frames of each call site."""
    marks = [item.get_closest_marker(name) for name in MARKS]
    sizes = [bytes_of(mark.args[0]) if mark else None for mark in marks]
    stacks = max((mark.kwargs.get("stacks", 32) for mark in marks if mark), default=None)
    return sizes, stacks


def pytest_runtest_setup(item):
    if any(size is not None for size in limits_of(item)[0]) and not gpumem._preloaded():
        pytest.skip("needs gpumem: start it by gpumem run -- pytest")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    (peak, leak), stacks = limits_of(item)
    if peak is None and leak is None:
        yield
        return
    file = os.path.join(tempfile.mkdtemp(prefix="gpumem-"), re.sub(r"\W+", "-", item.name).strip("-") + ".gmt")
    with gpumem.trace(file, stacks):
        outcome = yield
    message = outcome.excinfo is None and os.path.exists(file) and judge(file, peak, leak)
    if message:
        outcome.force_exception(pytest.fail.Exception(message, pytrace=False))
        return
    if os.path.exists(file):
        os.unlink(file)
    os.rmdir(os.path.dirname(file))


def judge(file, peak, leak):
    """What is wrong; None: the limits hold."""
    trace = json.loads(gpumem._run("report", "--json", "--stacks", file))["traces"][0]
    totals = trace["totals"]
    before = totals["older_bytes"]
    found = (("peak", peak, totals["peak_live_bytes"] - before, "at_peak_bytes"),
             ("leak", leak, totals["leaked_bytes"] - before, "leaked_bytes"))
    for name, limit, size, measure in found:
        if limit is None or size <= limit:
            continue
        sites = [site for site in trace["sites"] if site[measure] and site["module"]]  # older blocks have no call site
        lines = [f"  {site[measure]} bytes  " + " < ".join(frame["text"] for frame in [site, *site["callers"][:2]])
                 for site in sorted(sites, key=lambda site: -site[measure])[:5]]
        return "\n".join([f"{name} of {size} bytes of GPU memory, above the limit of {limit}; gpumem report {file}", *lines])
    return None
