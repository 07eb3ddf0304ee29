#!/usr/bin/env python3
"""Let the N-th call of one driver function fail, for N = 1, 2, ... until the program passes untouched.

usage: run_failures.py --programs DIR --cuda DIR --shim FILE --work DIR POLICY

Each time: no crash, no hang; each call of the program is one event, frees match allocations; the driver knows no block at the
end and no order of work was broken.
"""

import re
import shutil
import sys

from every_policy import POLICIES
from place import Failure, check, run_case
from traces import check_trace

# What native, async and managed memory ask of the driver, and what they fence with.
FUNCTIONS = (
    "cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemAllocManaged", "cuMemHostAlloc",
    "cuMemFree_v2", "cuMemFreeAsync", "cuMemFreeHost", "cuMemPoolCreate", "cuMemPoolSetAttribute", "cuMemPoolSetAccess",
    "cuMemPoolTrimTo", "cuMemGetInfo_v2", "cuStreamCreate", "cuStreamSynchronize", "cuStreamWaitEvent", "cuStreamGetCtx",
    "cuStreamIsCapturing", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuEventCreate", "cuEventRecord", "cuEventQuery",
    "cuEventSynchronize", "cuCtxRecordEvent", "cuCtxSynchronize", "cuCtxPushCurrent_v2", "cuCtxGetDevice", "cuCtxGetId",
    "cuDeviceGetAttribute",
)
MOST = 400


def number(text, name):
    found = re.search(rf"^{name} (\d+)", text, re.M)
    check(found, f"the program did not say '{name}':\n{text}")
    return int(found.group(1))


def one(place, policy, settings, label):
    done = place.run_shimmed([place.program("failures")], policy, **settings)
    check(done.returncode == 0, f"{label}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    check(done.stdout.endswith("ok failures\n"), f"{label}:\n{done.stdout}")
    noise = [line for line in done.stderr.splitlines() if not line.startswith("gpumem: ")]
    check(not noise, f"{label}: on stderr: {noise}")
    check(number(done.stdout, "violations") == 0, f"{label}:\n{done.stdout}")
    check_trace(done, "any", 0, label)
    shutil.rmtree(done.folder)
    return done


def script(place, policy):
    """Each function, each call."""
    clean = one(place, policy, {}, f"{policy}, no failure")
    blocks, used = number(clean.stdout, "blocks"), number(clean.stdout, "used")
    check(used <= 4 << 20, f"{policy}: more stays in use than a pool keeps:\n{clean.stdout}")
    check(number(clean.stdout, "failed") == 0, clean.stdout)
    # A managed block given back in stream order, where its pool refused, is freed by the next managed call.
    blocks += policy in ("managed", "active-list")
    tried = seen = 0
    for function in FUNCTIONS:
        for n in range(1, MOST):
            label = f"{policy}, call {n} of {function} fails"
            done = one(place, policy, {"SIMCUDA_FAIL": f"{function}:{n}", "FAILURES_COUNT": function}, label)
            check(number(done.stdout, "blocks") <= blocks, f"{label}: blocks are lost:\n{done.stdout}")
            check(number(done.stdout, "used") <= used, f"{label}: memory is lost:\n{done.stdout}")
            if number(done.stdout, "calls") < n:
                break
            tried += 1
            seen += number(done.stdout, "failed") > 0
        else:
            raise Failure(f"{policy}: {function} is called without end")
    check(tried > 40 and seen > 10, f"{policy}: {tried} failures, of which the program saw {seen}: they do not reach it")
    print(f"{policy}: {tried} failures, the program saw {seen}")


def nth(place, policy):
    """GPUMEM_FAIL_NTH: the shim's own failure of the N-th allocation it may place."""
    for n in range(1, MOST):
        label = f"{policy}, GPUMEM_FAIL_NTH={n}"
        done = one(place, policy, {"GPUMEM_FAIL_NTH": str(n)}, label)
        if number(done.stdout, "failed") == 0:
            break
        check(number(done.stdout, "failed") == 1, f"{label}:\n{done.stdout}")
    check(30 < n < MOST - 1, f"{policy}: passes from {n} on")


CASES = {policy: lambda place, policy=policy: (script(place, policy), nth(place, policy)) for policy in POLICIES}


if __name__ == "__main__":
    sys.exit(run_case(CASES))
