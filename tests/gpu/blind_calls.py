"""Calls of the driver that are taken to have nothing to do with work in flight (programs/blind_*.cpp): the same result, outputs and no
wait, idle and behind a kernel, natively and with the library loaded. Of gpu_suite.py."""

import collections
import concurrent.futures
import os
import re
import subprocess

import check_calls

LIMIT_S = 60
RUNS = {  # name: options, arguments
    "natively": (None, []),
    "default": ({}, ["--free"]),
    "safe": ({"GPUMEM_FREE": "safe"}, ["--free"]),
    "safe, no free": ({"GPUMEM_FREE": "safe"}, []),
}


def roles(source):
    """Symbol: role, of the table of calls. Empty where there is no table."""
    table = source / "shim/driver/calls.h"
    return {row.symbol: row.role for row in check_calls.read_table(table.read_text())} if table.exists() else {}


def build(options):
    folder = options.source / "tests/gpu/programs"
    target = options.work / "blind_calls"
    subprocess.run([str(options.toolkit / "bin/nvcc"), "-std=c++17", "-O1", "-Xcompiler", "-Wno-deprecated-declarations", "-o", str(target),
                    *map(str, sorted(folder.glob("blind_*.cpp"))), "-ldl"], check=True)
    return target


def run(options, program, settings, arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "LD_PRELOAD"))}
    if settings is not None:
        environment.update(LD_PRELOAD=str(options.shim), GPUMEM_POLICY="auto", **settings)
    try:
        return subprocess.run([str(program), *arguments], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired as end:
        return subprocess.CompletedProcess(program, 124, (end.stdout or b"").decode(), f"does not end within {LIMIT_S} s")


def lines_of(text):
    """Symbol: (verdict, words)"""
    found = re.findall(r"^(ok|wrong|none) (\w+):? ?(.*)$", text, re.MULTILINE)
    return {symbol: (verdict, words) for verdict, symbol, words in found}


def judge(name, done, natives, role):
    """Results of a run with the library: where it differs from the native one, and what the run has shown."""
    lines = lines_of(done.stdout)
    if done.returncode not in (0, 9) or not lines:
        yield name, "FAILED", f"{done.returncode} after {len(lines)} calls: {done.stderr.strip()[-300:]}"
    shown = 0
    for symbol, (verdict, words) in lines.items():
        native = natives.get(symbol, ("none", ""))
        waits = "waits" in words and "waits" not in native[1]
        codes = [re.search(r"result \d+", text) for text in (words, native[1])]
        differs = verdict != native[0] or [code and code[0] for code in codes][0] != [code and code[0] for code in codes][1]
        shown += verdict == "ok" and "no work" not in words
        if role.get(symbol, "BLIND") == "BLIND" and (waits or differs):
            yield f"{name} {symbol}", "FAILED", f"{verdict} {words}, natively {native[0]} {native[1]}"
    yield name, "ok" if shown else "skipped", f"{shown} calls with work in flight, {len(lines) - shown} without"


def blind_calls(options):
    program, role = build(options), roles(options.source)
    with concurrent.futures.ThreadPoolExecutor(len(RUNS)) as pool:
        done = dict(zip(RUNS, pool.map(lambda row: run(options, program, *row), RUNS.values())))
    natives = lines_of(done["natively"].stdout)
    if done["natively"].returncode not in (0, 9) or not natives:
        yield "natively", "FAILED", f"{done['natively'].returncode} {done['natively'].stderr.strip()[-300:]}"
        return
    for symbol, (verdict, words) in natives.items():
        is_blind = role.get(symbol, "BLIND") == "BLIND"
        if verdict == "wrong":
            yield f"natively {symbol}", "FAILED" if is_blind else "ok", f"{role.get(symbol, 'no role')}: {words}"
        elif verdict == "none":
            yield f"natively {symbol}", "skipped", words
    waiting = sorted(symbol for symbol, (verdict, words) in natives.items() if "waits" in words)
    failing = sorted(symbol for symbol, (verdict, words) in natives.items() if "result" in words)
    counts = collections.Counter(verdict for verdict, _ in natives.values())
    yield "natively", "ok", f"{counts['ok']} calls alike; waiting by themselves: {' '.join(waiting) or 'none'}; with an error: {' '.join(failing) or 'none'}"
    untried = sorted(symbol for symbol, its in role.items() if its == "BLIND" and symbol not in natives)
    yield "not tried", "ok" if role else "skipped", f"{len(untried)}: {' '.join(untried)}" if role else "no table of calls"
    for name in RUNS:
        if name != "natively":
            yield from judge(name, done[name], natives, role)
