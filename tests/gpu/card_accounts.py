"""GPU part accounts: the list of what the card's memory is, on a real card, against what the program of the test holds."""

import re
import subprocess

import accounts as listed

MIB = 1 << 20
LACK, SHARED = 32, 8  # flags of the event "beyond"
LIVE = 788435456  # what the plan has requested and not freed


def judge(done, events):
    """What is wrong with a run whose last request asked for more than the card has."""
    traced, words = listed.from_trace(events), re.search(listed.WORDS, done.stderr)
    failed = [one for one, flags in traced if flags & LACK]
    if done.returncode or not words or len(failed) != 1:
        return [f"{done.returncode}, {len(failed)} accounts of failures in {len(traced)}: {done.stdout}{done.stderr[-2000:]}"]
    wrong = [f"{listed.missing(one)} bytes are missing: {one}" for one, _ in traced if listed.missing(one)]
    wrong += filter(None, [listed.wrong_in_text(words[0], failed[0]["card"])])
    if words[1] != "larger than the device's memory":
        wrong.append(f"why: {words[1]}")
    last, shared = failed[0], any(flags & SHARED for _, flags in traced)
    # p: 8 blocks of 8 MiB, q: 2 of 16 MiB, a: 4 of 4 MiB, of which the latest 6 are freed; h: 2 handles of 4 MiB; g: nodes of 4 MiB.
    # The driver gives unused memory of pools back before it refuses a request.
    bounds = {"handles": (8 * MIB, 8 * MIB), "pools": (0, 512 * MIB), "contexts": (64 * MIB, None if shared else 4096 * MIB),
              "live": (LIVE, LIVE), "kept": (4 * MIB, 64 * MIB)}
    wrong += [f"{row}: {last[row]}" for row, (least, most) in bounds.items() if last[row] < least or (most and last[row] > most)]
    return wrong


def card_accounts(options, execute):
    target = options.work / "reserved"
    subprocess.run([*options.cc.split(), "-O1", "-D_GNU_SOURCE", "-isystem", str(options.toolkit / "include"), "-o", str(target),
                    str(options.source / "tests" / "preload" / "reserved.c"), "-L", str(options.toolkit / "lib64"), "-lcudart", str(options.driver)],
                   check=True)
    results = []
    for policy in ("cache", "observe", "auto"):
        done, events = execute(options, [str(target), *listed.PLAN, "1!x1000000m"], policy, GPUMEM_LOG="warn")
        wrong = judge(done, events)
        if policy == "observe":  # keeps nothing
            wrong = [line for line in wrong if not line.startswith("kept")]
        words = re.search(listed.WORDS, done.stderr)
        results.append((policy, "FAILED" if wrong else "ok", "; ".join(wrong) or re.sub(r"\s+", " ", words[0].replace("gpumem:", ""))))
    return results
