"""Part suspend of the GPU suite: programs whose memory leaves the card and comes back meanwhile give what they give natively."""

import os
import re
import subprocess
import sys
import time

SCRIPTS = ("torch_gpt", "torch_libraries", "torch_step", "torch_graph", "torch_streams", "cupy_product")
MODES = {"caching": {}, "uncached": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}
# A plain cudaMalloc inside a capture is an error natively, so no graph without caching.
MORE = {(script, mode) for script in SCRIPTS if script.startswith("torch") for mode in MODES} - {("torch_graph", "uncached")}
RUNS = int(os.environ.get("SUSPEND_RUNS", "3"))


# A process that keeps 2 GiB and compares them when it is asked.
HOLDER = """
import sys
import torch
held = torch.arange(1 << 28, device="cuda")
print("ready", flush=True)
for line in sys.stdin:
    print("equal" if bool((held == torch.arange(1 << 28, device="cuda")).all()) else "changed", flush=True)
"""


def whole(options, shimmed):
    """gpumem suspend --context takes a process off the card, with what gpumem does not serve, and gpumem resume brings it back."""
    name = "whole process, " + ("served by gpumem" if shimmed else "by the driver alone")
    tool = os.environ.get("SUSPEND_TOOL")
    if not tool:
        return name, "skipped", "SUSPEND_TOOL names no gpumem"
    environment = {**os.environ, **({"LD_PRELOAD": str(options.shim), "GPUMEM_SUSPEND": "on"} if shimmed else {})}
    with subprocess.Popen([sys.executable, "-c", HOLDER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout.readline() != "ready\n":
            return name, "skipped", "no PyTorch"
        said = []
        for _ in range(2):
            for command in ["suspend", "--context"], ["resume"]:
                done = subprocess.run([tool, *command, str(process.pid)], capture_output=True, text=True)
                said.append(done.stdout + done.stderr)
                if done.returncode and "has no checkpoint API" in done.stderr:
                    process.kill()
                    return name, "skipped", done.stderr
                if done.returncode:
                    process.kill()
                    return name, "FAILED", "".join(said)
            process.stdin.write("look\n")
            process.stdin.flush()
            if process.stdout.readline() != "equal\n":
                process.kill()
                return name, "FAILED", "contents changed"
        process.stdin.close()
    return name, "ok" if process.returncode == 0 else "FAILED", re.sub(r"process \d+: |\n", " ", "".join(said))


def paused(options, execute):
    """The script compares by itself."""
    done, _ = execute(options, [sys.executable, str(options.source / "tests" / "gpu" / "torch_pause.py")], "auto", GPUMEM_SUSPEND="on")
    missing = "No module named" in done.stderr
    return "torch_pause", "ok" if done.returncode == 0 else "skipped" if missing else "FAILED", done.stderr[-800:]


def suspended(options, framework, execute):
    here = options.source / "tests" / "gpu"
    yield paused(options, execute)
    yield whole(options, True)
    yield whole(options, False)
    for script in SCRIPTS:
        for mode, settings in MODES.items():
            if mode != "caching" and (script, mode) not in MORE:
                continue
            for seed in range(RUNS):
                command = [sys.executable, str(here / "suspend_often.py"), str(seed), str(here / f"{script}.py")]
                yield framework(options, f"{script} {mode}, suspends {seed}", command, ["auto", "observe"], GPUMEM_SUSPEND="on", **settings)
