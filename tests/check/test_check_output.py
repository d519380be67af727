"""Findings as text, JSON, SARIF and GitHub commands; baselines; the command and its exit codes."""

import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roboreel.check import Findings, check_dataset
from roboreel.check.baseline import fingerprint, read_baseline, without_known, write_baseline
from roboreel.check.formats import format_github, to_sarif
from roboreel.check.text import format_text
from roboreel.cli import app
from roboreel.errors import MetadataError, MissingFileError
from roboreel.findings import RULES, finding
from tests import PROJECT
from tests.check.sarif_schema import SARIF, violations
from tests.clean import clean_dataset
from tests.surgery import Folder

DOCS = PROJECT / "docs"
TIERS = {
    "metadata": "every tier",
    "numbers": "`--tier numbers` and above",
    "index": "`--tier index`, the default",
    "deep": "`--deep`",
}


@pytest.fixture
def broken(tmp_path):
    """A dataset with findings of every severity, some of them in several episodes."""
    root = clean_dataset(tmp_path / "d with space", "v2.1")
    folder = Folder(root)
    for episode in range(5):
        folder.edit_column(episode, "task_index", lambda values: [99] * len(values))
    folder.edit_info(splits={"train": "0:9"})
    return root


def run(*words):
    return CliRunner().invoke(app, ["check", *map(str, words)])


class TestText:
    def test_it_is_grouped_by_code_the_worst_first_and_fits_80_columns(self, broken):
        text = format_text(check_dataset(broken, tier="numbers"))
        headings = [
            line for line in text.splitlines() if re.match(r"(error|warning|note) RR", line)
        ]
        assert headings == [
            "error RR207 undefined-task (5 times)",
            "warning RR113 wrong-splits",
            "note RR208 unused-task (2 times)",
            "note RR506 wrong-episode-statistics (5 times)",
            "note RR603 constant-element (2 times)",
        ]
        assert "  and 2 more, in episodes 3 and 4." in text
        assert "Found 5 errors, 1 warning and 9 notes (" in text
        assert text.endswith("Video files were not opened: use --tier index.")
        assert max(map(len, text.splitlines())) <= 80

    def test_a_clean_dataset_says_so(self, tmp_path):
        text = format_text(Findings(tmp_path, "deep", checked=("RR101", "RR102")))
        assert text == "No problems found (2 rules checked)."

    def test_what_was_not_checked_is_said_with_its_reason(self, tmp_path):
        findings = Findings(
            tmp_path,
            "deep",
            not_checked={"RR501": "Some rows cannot be read.", "RR506": "Not asked for."},
        )
        assert format_text(findings).splitlines() == [
            "No problems found (0 rules checked).",
            "Not checked: RR501. Some rows cannot be read.",
        ]


class TestJson:
    def test_it_has_findings_counts_and_the_account(self, broken):
        raw = json.loads(run(broken, "--format", "json", "--tier", "numbers").stdout)
        assert raw["counts"] == {"error": 5, "warning": 1, "note": 9}
        first = raw["findings"][0]
        assert first == {
            "code": "RR113",
            "name": "wrong-splits",
            "severity": "warning",
            "message": "The split 'train' is '0:9', but there are 6 episodes: '0:6' would be all.",
            "file": "meta/info.json",
            "episode": None,
            "feature": None,
            "rows": None,
            "fixable": True,
        }
        assert "RR207" in raw["checked"]
        assert raw["not_checked"]["RR401"] == "Needs --tier index."


class TestSarif:
    def test_it_has_the_structure_that_the_standard_asks_for(self, broken):
        log = to_sarif(check_dataset(broken, tier="numbers"), version="1.2.3")
        assert list(violations(json.loads(json.dumps(log)), SARIF)) == []

    @pytest.mark.skipif(
        "ROBOREEL_SARIF_SCHEMA" not in os.environ,
        reason="ROBOREEL_SARIF_SCHEMA does not name sarif-schema-2.1.0.json of the OASIS standard",
    )
    def test_it_is_valid_by_the_schema_of_the_standard(self, broken):
        jsonschema = pytest.importorskip("jsonschema")
        schema = json.loads(Path(os.environ["ROBOREEL_SARIF_SCHEMA"]).read_text())
        validator = jsonschema.validators.validator_for(schema)(schema)
        wrong = {"version": "2.1.0", "runs": [{"results": []}]}
        assert [error.validator for error in validator.iter_errors(wrong)] == ["required"]
        (broken / "data" / "stray.parquet").write_bytes(b"nothing")
        for tier in ("metadata", "index"):
            log = to_sarif(check_dataset(broken, tier=tier), version="1.2.3")
            assert log["runs"][0]["results"]
            assert list(validator.iter_errors(json.loads(json.dumps(log)))) == []

    def test_the_schema_sees_what_is_wrong(self):
        assert list(violations({"version": "2.0", "runs": [{"results": []}]}, SARIF)) == [
            "$: 'version': '2.0' is none of ['2.1.0']".replace("$: 'version'", "$.version"),
            "$.runs[0]: no 'tool'",
        ]

    def test_results_name_rule_level_file_and_episode(self, broken):
        (log,) = to_sarif(check_dataset(broken, only=["RR207"]), version="1.2.3")["runs"]
        rules = log["tool"]["driver"]["rules"]
        assert [rule["id"] for rule in rules] == list(RULES)
        result = log["results"][1]
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "RR207"
        assert result["level"] == "error"
        place = result["locations"][0]
        assert place["physicalLocation"]["artifactLocation"] == {
            "uri": "data/chunk-000/episode_000001.parquet",
            "uriBaseId": "DATASET",
        }
        assert {"name": "1", "kind": "episode"} in place["logicalLocations"]
        assert log["originalUriBaseIds"]["DATASET"]["uri"] == f"{broken.as_uri()}/"

    def test_more_than_github_takes_are_cut_the_least_severe_first(self, tmp_path):
        many = [finding("RR605", f"{i}", episode=i) for i in range(25_001)]
        findings = Findings(tmp_path, "index", (*many, finding("RR601", "x")))
        (log,) = to_sarif(findings, version="1")["runs"]
        assert len(log["results"]) == 25_000
        assert log["results"][0]["ruleId"] == "RR601"
        assert log["properties"] == {"numFindings": 25_002}


class TestGithub:
    def test_one_command_per_code_with_escaped_text(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        findings = Findings(
            tmp_path / "d",
            "index",
            (
                finding("RR603", "100%: a,\nb", file="meta/info.json"),
                finding("RR207", "Episode 1.", file="data/a,b.parquet", episode=1),
                finding("RR207", "Episode 2.", file="data/c.parquet", episode=2),
            ),
        )
        assert format_github(findings).splitlines() == [
            "::error title=RR207 undefined-task,file=d/data/a%2Cb.parquet::Episode 1. (and 1 more)",
            "::notice title=RR603 constant-element,file=d/meta/info.json::100%25: a,%0Ab",
        ]


class TestBaseline:
    def test_known_findings_are_left_out_and_new_ones_are_not(self, broken, tmp_path):
        path = tmp_path / "known.json"
        write_baseline(path, check_dataset(broken, tier="numbers"))
        Folder(broken).edit_info(total_frames=1)
        findings = without_known(check_dataset(broken, tier="numbers"), read_baseline(path))
        assert [found.code for found in findings] == ["RR101"]
        assert len(findings.known) == 15
        assert "The baseline lists 15 more findings." in format_text(findings, width=200)

    def test_a_finding_is_known_by_its_place_not_by_its_message(self):
        first = finding("RR208", "No row has task 3.", file="meta/tasks.jsonl")
        assert fingerprint(first) == fingerprint(finding("RR208", "x", file="meta/tasks.jsonl"))
        assert fingerprint(first) != fingerprint(finding("RR208", "x", file="meta/info.json"))

    def test_one_more_of_a_kind_at_a_known_place_is_new(self, tmp_path):
        one, two = (finding("RR208", f"No row has task {i}.", file="meta/x") for i in (3, 4))
        write_baseline(tmp_path / "known", Findings(tmp_path, "index", (one,)))
        known = read_baseline(tmp_path / "known")
        assert len(without_known(Findings(tmp_path, "index", (one,)), known)) == 0
        assert len(without_known(Findings(tmp_path, "index", (one, two)), known)) == 1
        worse = finding("RR208", "No row has task 3.", file="meta/x", severity="error")
        assert len(without_known(Findings(tmp_path, "index", (worse,)), known)) == 1

    def test_it_has_a_line_per_finding_and_is_the_same_each_time(self, broken, tmp_path):
        findings = check_dataset(broken, tier="numbers")
        write_baseline(tmp_path / "a", findings)
        write_baseline(tmp_path / "b", findings)
        text = (tmp_path / "a").read_text()
        assert text == (tmp_path / "b").read_text()
        assert len(json.loads(text)["findings"]) == text.count('"fingerprint"')
        write_baseline(tmp_path / "c", Findings(broken, "index"))
        assert json.loads((tmp_path / "c").read_text()) == {"version": 1, "findings": []}

    def test_what_is_no_baseline_is_an_error(self, tmp_path):
        with pytest.raises(MissingFileError, match="--write-baseline"):
            read_baseline(tmp_path / "nothing")
        (tmp_path / "x").write_text("[]")
        with pytest.raises(MetadataError, match="Not a baseline"):
            read_baseline(tmp_path / "x")


class TestTheCommand:
    def test_exit_codes_tell_clean_from_findings(self, broken, tmp_path):
        assert run(clean_dataset(tmp_path / "clean"), "--tier", "numbers").exit_code == 0
        assert run(broken, "--tier", "numbers").exit_code == 1
        assert run(broken, "--tier", "numbers", "--ignore", "RR207").exit_code == 0
        ignored = (broken, "--tier", "numbers", "--ignore", "RR207")
        assert run(*ignored, "--fail-on", "warning").exit_code == 1
        assert run(*ignored, "--ignore", "RR207,RR113", "--fail-on", "note").exit_code == 1

    def test_what_could_not_be_checked_exits_with_2(self, tmp_path):
        unchecked = finding("RR001", "Could not check RR501.")
        assert Findings(tmp_path, "index", (unchecked,)).exit_code() == 2
        assert Findings(tmp_path, "index", (unchecked,)).exit_code("warning") == 2
        both = (unchecked, finding("RR601", "x"))
        assert Findings(tmp_path, "index", both).exit_code() == 1

    def test_a_baseline_is_written_and_used(self, broken, tmp_path):
        known = tmp_path / "known.json"
        words = (broken, "--tier", "numbers", "--baseline", known)
        assert run(*words).exit_code != 0
        assert run(*words, "--write-baseline").exit_code == 0
        assert run(*words).exit_code == 0
        assert run(broken, "--write-baseline").exit_code == 2

    def test_codes_and_episodes_that_make_no_sense_are_wrong_usage(self, broken):
        for words in (["--only", "RR9"], ["--ignore", "nonsense"], ["--episodes", "x"]):
            assert run(broken, *words).exit_code == 2

    def test_deep_is_a_tier(self, broken):
        raw = json.loads(run(broken, "--deep", "--only", "RR101", "--format", "json").stdout)
        assert raw["tier"] == "deep"

    def test_each_form_is_printed(self, broken):
        sarif = json.loads(run(broken, "--tier", "numbers", "--format", "sarif").stdout)
        assert sarif["version"] == "2.1.0"
        github = run(broken, "--tier", "numbers", "--format", "github").stdout
        assert github.startswith("::error title=RR207")


class TestThePages:
    def test_every_rule_has_a_page_and_every_page_a_rule(self):
        assert {path.stem for path in (DOCS / "checks").glob("*.md")} == set(RULES)

    @pytest.mark.parametrize("code", RULES)
    def test_a_page_names_its_rule_and_says_cause_harm_and_cure(self, code):
        lines = (DOCS / "checks" / f"{code}.md").read_text().splitlines()
        rule = RULES[code]
        assert lines[:3] == [f"# {code}: {rule.name}", "", rule.summary]
        repair = "`roboreel repair` can mend it" if rule.fixable else "no automatic repair"
        assert (
            lines[4] == f"*{rule.severity.capitalize()} · found with {TIERS[rule.tier]} · {repair}*"
        )
        sections = [line.split(" ")[0] for line in lines if line.startswith("**")]
        assert sections == ["**Cause.**", "**Harm.**", "**Cure.**"]

    def test_the_guide_lists_every_rule(self):
        text = (DOCS / "checking.md").read_text()
        for code, rule in RULES.items():
            assert f"[{code}](checks/{code}.md)" in text
            assert rule.name in text
