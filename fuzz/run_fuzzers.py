"""Runs the fuzzers of a build for some seconds each and says what they found.

Every fuzzer starts from its committed seeds, fuzz/corpus/NAME. With --grow it also keeps the inputs that reached new code, in
build/fuzz/NAME/corpus, and goes on from them the next time. An input that crashes, hangs or asks for too much memory stays in
build/fuzz/NAME with libFuzzer's name; `build/asan/fuzz/NAME_fuzz FILE` shows it again. A JUnit report per fuzzer goes to --reports.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
FINDINGS = ("crash-*", "oom-*", "timeout-*", "leak-*")
# One allocation far beyond any input is a finding, too. Standard error is closed to the program under test, since a caught panic
# writes a line for every input; the sanitizers' reports still appear.
LIMITS = ["-rss_limit_mb=2048", "-malloc_limit_mb=512", "-timeout=10", "-max_len=65536", "-close_fd_mask=2"]


@dataclass
class Outcome:
    name: str
    seconds: float
    executions: int = 0
    coverage: int = 0
    findings: list[Path] = field(default_factory=list)
    failure: str = ""  # the end of its output


def number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def run(program: Path, seconds: int, grow: bool) -> Outcome:
    name = program.name.removesuffix("_fuzz")
    work = ROOT / "build" / "fuzz" / name
    # libFuzzer writes into the first folder that it is given: never into the seeds.
    grown = work / ("corpus" if grow else "scratch")
    shutil.rmtree(work / "scratch", ignore_errors=True)
    grown.mkdir(parents=True, exist_ok=True)
    before = {path for pattern in FINDINGS for path in work.glob(pattern)}
    command = [program, *LIMITS, f"-max_total_time={seconds}", f"-artifact_prefix={work}/", "-print_final_stats=1"]
    if not grow:
        command.append("-seed=1")
    dictionary = ROOT / "fuzz" / f"{name}.dict"
    if dictionary.exists():
        command.append(f"-dict={dictionary}")
    command += [grown, ROOT / "fuzz" / "corpus" / name]
    started = time.monotonic()
    log = work / "log.txt"
    with log.open("w") as output:
        # libFuzzer ends by itself; the margin is for one last slow input.
        status = subprocess.run(command, stdout=output, stderr=output, timeout=seconds + 120, check=False).returncode
    text = log.read_text(errors="replace")
    after = {path for pattern in FINDINGS for path in work.glob(pattern)}
    return Outcome(name=name, seconds=time.monotonic() - started, executions=number(r"number_of_executed_units: (\d+)", text),
                   coverage=number(r"\bcov: (\d+)", text), findings=sorted(after - before),
                   failure=text[-4000:] if status != 0 else "")


def run_guarded(program: Path, seconds: int, grow: bool) -> Outcome:
    try:
        return run(program, seconds, grow)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Outcome(name=program.name.removesuffix("_fuzz"), seconds=0, failure=str(error))


def write_report(outcome: Outcome, folder: Path) -> None:
    suite = ElementTree.Element("testsuite", name="fuzzers")
    case = ElementTree.SubElement(suite, "testcase", classname="fuzz", name=outcome.name, time=f"{outcome.seconds:.1f}")
    if outcome.failure:
        ElementTree.SubElement(case, "failure", message=", ".join(map(str, outcome.findings))).text = re.sub(
            r"[^\n\t -~]", "?", outcome.failure)
    folder.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(folder / f"{outcome.name}_fuzz.xml")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help="folder of the fuzzers' programs")
    parser.add_argument("seconds", type=int, help="for each fuzzer")
    parser.add_argument("--only", default="", help="NAME of a single fuzzer")
    parser.add_argument("--grow", action="store_true", help="keep what reached new code")
    parser.add_argument("--jobs", type=int, default=1, help="fuzzers at a time")
    parser.add_argument("--reports", type=Path, help="folder for JUnit reports")
    options = parser.parse_args()
    programs = sorted(path for path in options.build.glob("*_fuzz") if options.only in ("", path.name.removesuffix("_fuzz")))
    if not programs:
        print(f"no fuzzer in {options.build}")
        return 1
    failed = False
    with ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(lambda program: run_guarded(program, options.seconds, options.grow), programs):
            print(f"{outcome.name:16} {outcome.seconds:6.0f} s {outcome.executions:10} executions {outcome.coverage:6} edges  "
                  f"{'FAILED' if outcome.failure else 'ok'}", flush=True)
            if outcome.failure:
                failed = True
                print(outcome.failure)
            for finding in outcome.findings:
                print(f"    {finding.relative_to(ROOT)}")
            if options.reports:
                write_report(outcome, options.reports)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
