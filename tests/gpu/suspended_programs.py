"""Part suspend of the GPU suite: programs whose memory leaves the card and comes back meanwhile give what they give natively."""

import os
import sys

SCRIPTS = ("torch_step", "torch_graph", "torch_streams", "cupy_product")
MODES = {"caching": {}, "uncached": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}
RUNS = int(os.environ.get("SUSPEND_RUNS", "3"))


def suspended(options, framework):
    here = options.source / "tests" / "gpu"
    for script in SCRIPTS:
        for mode, settings in MODES.items():
            if mode != "caching" and not script.startswith("torch"):
                continue
            for seed in range(RUNS):
                command = [sys.executable, str(here / "suspend_often.py"), str(seed), str(here / f"{script}.py")]
                yield framework(options, f"{script} {mode}, suspends {seed}", command, ["auto", "observe"], GPUMEM_SUSPEND="on", **settings)
