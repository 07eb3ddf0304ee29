#!/usr/bin/env python3
"""What nvcc makes of kernels that print and that do not, in every packing that it knows: the printing ones are found, also behind a
compression, and the others only where code is hidden.

usage: compiled_images.py NVCC IMAGE_FILE WORK
"""

import pathlib
import subprocess
import sys

SKIP = 77
SOURCE = """
#include <cstdio>
__global__ void kernel(int *data, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        data[i] = 3 * data[i] + i;
#ifdef PRINTS
    printf("first: %d\\n", data[0]);
#endif
}
"""
SEVERAL = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in ("80", "90")]
PTX_TOO = [*SEVERAL, "-gencode=arch=compute_90,code=compute_90"]
FORMS = {
    "plain": ["-arch=sm_90"],
    "several": PTX_TOO,
    "several, compressed": [*PTX_TOO, "-Xfatbin=-compress-all"],
    "uncompressed": ["-arch=sm_90", "-no-compress"],
    "size": ["-arch=sm_90", "--compress-mode=size"],
    "balance": ["-arch=sm_90", "--compress-mode=balance", "-Xfatbin=-compress-all"],
    "speed": ["-arch=sm_90", "--compress-mode=speed", "-Xfatbin=-compress-all"],
    "debug": ["-G", "-arch=sm_90"],
    "relocatable": ["-rdc=true", "-arch=sm_90"],
    "PTX only": ["-gencode=arch=compute_80,code=compute_80"],
    "cubin": ["-cubin", "-arch=sm_90"],
    "PTX file": ["-ptx", "-arch=sm_90"],
}
HIDDEN = {"LTO": ["-gencode=arch=compute_90,code=lto_90"]}
LATER = {"later": ["-gencode=arch=compute_120,code=sm_120", "-Xfatbin=-compress-all"]}


def main():
    nvcc, image_file, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    source = work / "kernel.cu"
    source.write_text(SOURCE)

    def build(flags, prints):
        image = work / f"image{prints}"
        image.unlink(missing_ok=True)
        form = [] if "-cubin" in flags or "-ptx" in flags else ["-fatbin"]
        command = [nvcc, *form, *flags, *(["-DPRINTS"] if prints else []), "-o", str(image), str(source)]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode and "nknown option" not in made.stderr and "nsupported gpu" not in made.stderr:
            sys.exit(f"{command}: {made.stderr}")
        if made.returncode:
            return None
        with image.open("ab") as file:
            file.write(b"\0" * (form != ["-fatbin"]))  # the end of a text
        return str(image)

    if subprocess.run([nvcc, "--version"], capture_output=True).returncode or build(FORMS["plain"], True) is None:
        print("no compiler for compute capability 9.0")
        return SKIP
    wrong = []
    found_on = {
        **{name: (flags, {"0": "00 11", "90": "00 11"}) for name, flags in FORMS.items()},
        **{name: (flags, {"0": "11 11", "90": "11 11"}) for name, flags in HIDDEN.items()},
        **{name: (flags, {"0": "00 11", "90": "00 00", "121": "00 11"}) for name, flags in LATER.items()},
    }
    for name, (flags, devices) in found_on.items():
        images = [build(flags, prints) for prints in (False, True)]
        for device, expected in devices.items():
            if None in images:
                continue  # an older compiler
            found = subprocess.run([image_file, device, *images], capture_output=True, text=True, check=True).stdout.strip()
            print(f"{name} for {device}: {found}")
            if found != expected:
                wrong.append(f"{name} for {device}: {found}, not {expected}")
    print(*wrong, sep="\n", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
