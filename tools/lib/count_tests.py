#!/usr/bin/env python3
"""Counts what a run of `meson test` gave.

usage: count_tests.py TESTLOG.json STATUS

STATUS is the exit status of meson test: not 0 although no test failed means a run that was cut short, which counts as
one failure. Prints "N passed, N failed, N skipped"; exit status 0 only when a test passed and none failed. Where there was
none, the line says so.
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
        pass  # as with an empty one
    if status and passed and not failed:
        failed = 1
    none = '' if passed or failed or skipped else ': no test ran'
    print(f'{passed} passed, {failed} failed, {skipped} skipped{none}')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
