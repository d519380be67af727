"""Findings and rules: stable codes, one list."""

import re

from roboreel.check.run import CHECKS
from roboreel.findings import RULES, SEVERITIES, TIERS, finding


def test_every_rule_has_a_code_a_name_and_a_sentence():
    names = [rule.name for rule in RULES.values()]
    assert len(set(names)) == len(names)
    for code, rule in RULES.items():
        assert re.fullmatch(r"RR\d{3}", code)
        assert rule.code == code
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
        assert rule.severity in SEVERITIES
        assert rule.tier in TIERS
        assert rule.summary.endswith(".")
    assert list(RULES) == sorted(RULES)


def test_checks_name_rules_of_one_tier():
    for check in CHECKS:
        assert {RULES[code].tier for code in check.codes} == {check.tier}


def test_a_finding_prints_as_its_message_and_has_what_its_rule_says():
    found = finding("RR202", "Episode 3 has 5 frames, not 6.", episode=3)
    assert str(found) == "Episode 3 has 5 frames, not 6."
    assert (found.severity, found.fixable) == ("error", True)
    assert finding("RR202", "x", severity="note", fixable=False).severity == "note"
