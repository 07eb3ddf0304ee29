#!/usr/bin/env python3
"""Counts what a run of `meson test` gave.

usage: count_tests.py TESTLOG.json STATUS

STATUS is the exit status of meson test: not 0 although no test failed means a run that was cut short, which counts as
one failure. Prints "N passed, N failed, N skipped"; exit status 0 only when a test passed and none failed.
"""
import json
import sys

PASSED = {'OK', 'EXPECTEDFAIL'}
SKIPPED = {'SKIP', 'IGNORED'}


def main(path, status):
    passed = failed = skipped = 0
    try:
        with open(path) as log:
            for line in log:
                result = json.loads(line)['result']
                passed += result in PASSED
                skipped += result in SKIPPED
                failed += result not in PASSED | SKIPPED
    except OSError:
        print(f'{path}: no test ran', file=sys.stderr)
    if status and passed and not failed:
        failed = 1
    print(f'{passed} passed, {failed} failed, {skipped} skipped')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
