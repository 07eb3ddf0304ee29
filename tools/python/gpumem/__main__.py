"""The program `gpumem`, as the wheel installs it."""

import os
import sys

import gpumem


def main():
    os.execvp(gpumem.tool(), ["gpumem", *sys.argv[1:]])


if __name__ == "__main__":
    main()
