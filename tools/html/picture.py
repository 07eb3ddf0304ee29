#!/usr/bin/env python3
"""Makes the picture of a page that the README shows: runs examples/epochs on a simulated CUDA with two devices and opens its page.

usage: picture.py BUILD PICTURE.png
"""

import base64
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "tools"))

import browser  # noqa: E402

WIDTH, HEIGHT = 1240, 1015


def main():
    build, picture = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        gpumem = build / "tools" / "gpumem"
        subprocess.run([gpumem, "run", "--sim", "--trace=epochs.gmt", "--", build / "examples" / "epochs"], cwd=folder, check=True,
                       env={**os.environ, "SIMCUDA_DEVICES": "2"})
        subprocess.run([gpumem, "html", "epochs.gmt"], cwd=folder, check=True)
        page = browser.Browser()
        page.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        page.open(os.path.join(folder, "epochs.gmt.html"))
        page.choose("#device", 2)
        page.choose("#measure", "leaked_bytes")
        picture.write_bytes(base64.b64decode(page.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1})["data"]))
        page.close()


if __name__ == "__main__":
    main()
