#!/usr/bin/env python3
"""Time and memory of the commands that read traces, on a trace of ten million events. Needs no GPU.

usage: trace_tools.py [--build DIR] [--events N] [--live N] [--rounds N] [--folder DIR] [--out FILE.json]

The trace has four threads, 200 call sites, and --live blocks alive at a time; gpumem diff reads a second one with a tenth fewer events.
The two traces and each output lie in --folder, which needs 5 GB. The commands run in turn, --rounds times. Processor time is that of
the user and of the system together. Wall time is longer where the disk is slow or the machine has other work. Peak memory is VmHWM.
"""

import json
import os
import pathlib
import platform
import shutil
import statistics
import tempfile
import time

import common

FORMATS = ["csv", "heaptrack", "pprof", "perfetto", "torch", "sqlite"]
LIMIT_S, LIMIT_MIB = 40, 1024


def peak_kib(pid, before):
    """The peak so far; `before` once the process has no memory any more."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    except OSError:
        pass
    return before


def measure(command, folder):
    """Processor seconds, wall seconds and peak MiB of one run."""
    begin, peak = time.monotonic(), 0
    with open(os.devnull, "r+b") as null:
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null.fileno(), 1)])
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        peak = peak_kib(pid, peak)
        time.sleep(0.005)
    wall = time.monotonic() - begin
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise common.Failed(f"{' '.join(command[:3])}: status {os.waitstatus_to_exitcode(status)}")
    written = sum(path.stat().st_size for path in [*folder.glob("out.*"), *folder.glob("out.*/*")] if path.is_file())
    return {"cpu_s": usage.ru_utime + usage.ru_stime, "wall_s": wall, "peak_mib": peak / 1024, "written_mib": written / (1 << 20)}


def commands(tool, folder):
    trace, other = str(folder / "a.trace"), str(folder / "b.trace")
    return {"report": [tool, "report", trace], "diff": [tool, "diff", trace, other],
            "html": [tool, "html", "-o", str(folder / "out.html"), trace],
            "plot": [tool, "plot", "-o", str(folder / "out.plot"), trace],
            **{name: [tool, "export", f"--to={name}", "-o", str(folder / f"out.{name}"), trace] for name in FORMATS}}


def spread(values, form):
    return f"{form.format(min(values))} / {form.format(statistics.median(values))} / {form.format(max(values))}"


def show(document):
    print(f"commit {document['commit']}, {document['events']} events, {document['live']} live, {document['rounds']} rounds, "
          f"{document['cores']} cores; min / median / max")
    for row in document["rows"]:
        runs = row["runs"]
        worst = max(max(run["cpu_s"] for run in runs) / LIMIT_S, max(run["peak_mib"] for run in runs) / LIMIT_MIB)
        print(f"  {row['command']:10} cpu {spread([run['cpu_s'] for run in runs], '{:.1f}'):>20} s"
              f"  wall {spread([run['wall_s'] for run in runs], '{:.1f}'):>20} s  peak {max(run['peak_mib'] for run in runs):6.0f} MiB"
              f"  written {runs[0]['written_mib']:6.0f} MiB  {'met' if worst <= 1 else 'missed'}")


def main():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--events", type=common.count, default=10_000_000)
    parser.add_argument("--live", type=common.count, default=10_000)
    parser.add_argument("--rounds", type=common.count, default=3)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    parser.add_argument("--out", type=common.output)
    options = parser.parse_args()
    build = options.build.resolve()
    common.build(build, "tools/gpumem", "tests/unit/tools/many_events", shim=False)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        for trace, events in (("a.trace", options.events), ("b.trace", options.events * 9 // 10)):
            common.run([build / "tests" / "unit" / "tools" / "many_events", folder / trace, str(events), str(options.live)], os.environ)
        rows = {command: [] for command in commands("", folder)}
        for _ in range(options.rounds):
            for command, words in commands(str(build / "tools" / "gpumem"), folder).items():
                rows[command].append(measure(words, folder))
                for path in folder.glob("out.*"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
    document = {"commit": common.commit(), "machine": platform.machine(), "cores": os.cpu_count(), "events": options.events,
                "live": options.live, "rounds": options.rounds, "limit_s": LIMIT_S, "limit_mib": LIMIT_MIB,
                "rows": [{"command": command, "runs": runs} for command, runs in rows.items()]}
    show(document)
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    common.end(main)
