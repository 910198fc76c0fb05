"""Adds up the reports of one `./bootstrap test` and closes with "N passed, N failed".

Reads, below the directory given: *.xml (JUnit form: GoogleTest, pytest, node), *.cargo.txt (cargo test), `crashed`
(a line per test program that left no report) and `failed_phases` (a line per phase that ended with an error). A failed
phase whose reports show no failure counts as one, so that nothing fails unseen. Exit status: 0 if nothing failed and
something passed.
"""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree


def count_junit(path: Path) -> tuple[int, int, int]:
    """(passed, failed, skipped) of one XML report."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_cargo(path: Path) -> tuple[int, int, int]:
    results = re.findall(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", path.read_text())
    columns = [sum(map(int, column)) for column in zip(*results)] if results else [0, 0, 0]
    return columns[0], columns[1], columns[2]


def count(path: Path) -> tuple[int, int, int]:
    try:
        return count_cargo(path) if path.name.endswith(".cargo.txt") else count_junit(path)
    except ElementTree.ParseError:
        return 0, 1, 0


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def main(folder: Path) -> int:
    totals = [0, 0, 0]
    for path in sorted([*folder.rglob("*.xml"), *folder.rglob("*.cargo.txt")]):
        counts = count(path)
        totals = [total + more for total, more in zip(totals, counts)]
        print(f"{counts[0]:6} passed {counts[1]:4} failed {counts[2]:4} skipped  {path.relative_to(folder)}")
    passed, failed, skipped = totals
    for program in lines(folder / "crashed"):
        print(f"     crashed, no report: {program}")
        failed += 1
    phases = lines(folder / "failed_phases")
    if phases:
        print("failed phases: " + ", ".join(phases))
        failed = max(failed, len(phases))
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
