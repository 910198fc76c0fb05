"""The house rules that a compiler does not check. Files are those that git knows."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", *[str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").glob("*.md"))]]
ROOMS = re.compile(r"(?<![\w/.-])((?:src|docs|tests|bench|cmake|rust|fuzz|resources|\.ci)/[\w./-]*\w)(?::(\w+))?")
# Spelled in parts, so that this file does not name what it forbids.
FORBIDDEN = ["/work" + "/", "/tmp" + "/wt", "/root" + "/", "pypi" + ".org", "registry.npmjs" + ".org", "crates" + ".io/api",
             "static.crates" + ".io", "deb.debian" + ".org", "files.pythonhosted" + ".org"]


def tracked(*patterns):
    output = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z", *patterns], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    return [name for name in output.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page):
    text = (ROOT / page).read_text()
    missing = []
    for name, function in ROOMS.findall(text):
        path = ROOT / name
        if not path.exists():
            missing.append(name)
        elif function and not re.search(rf"\b{function}\b", path.read_text()):
            missing.append(f"{name}:{function}")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        if not ((ROOT / page).parent / link).exists():
            missing.append(link)
    assert not missing


def test_no_include_climbs_out_of_its_room():
    offenders = [name for name in tracked("src/*.h", "src/*.cc") if '#include "../' in (ROOT / name).read_text()]
    assert not offenders


def test_no_machine_path_or_registry_host_is_committed():
    offenders = []
    for name in tracked():
        if name.endswith((".lock", "package-lock.json")):
            continue  # written by cargo and npm, with the addresses that they need
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue
        offenders += [f"{name}: {word}" for word in FORBIDDEN if word in text]
    assert not offenders


def test_files_for_one_instruction_set_emit_no_weak_symbols():
    # Not the sanitizers' builds, whose instrumentation has weak symbols of its own.
    objects = [path for preset in ("release", "debug") for path in (ROOT / "build" / preset).glob("src/**/*.cc.o")
               if re.search(r"_avx\w*\.cc\.o$", path.name)]
    assert objects, "nothing is built"
    offenders = []
    for path in objects:
        symbols = subprocess.run(["nm", "--defined-only", path], check=True, capture_output=True, text=True).stdout
        offenders += [f"{path.name}: {line.split()[-1]}" for line in symbols.splitlines() if line.split()[-2] in "WVu"]
    assert not offenders


def test_the_scripts_are_valid():
    for script in ("bootstrap", ".ci/run"):
        subprocess.run(["bash", "-n", ROOT / script], check=True)


def test_a_truncated_bootstrap_does_nothing(tmp_path):
    text = (ROOT / "bootstrap").read_text()
    cut = tmp_path / "bootstrap"
    for length in range(0, len(text) - len('main "$@"\n'), 997):
        cut.write_text(text[:length])
        result = subprocess.run(["bash", cut, "clean", "--all"], capture_output=True, text=True, cwd=tmp_path, timeout=20)
        assert result.stdout == "", f"cut at {length}: {result.stdout}"
