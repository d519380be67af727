"""Hostile bytes: a few for every parser here, millions by ``make fuzz``."""

import json
import random

import pytest

from roboreel.errors import MetadataError
from roboreel.format.features import feature_from_json
from tests.fuzz import targets
from tests.fuzz.mutate import mutated
from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS
from tests.measured import START, STOP, add_counts, read_counts, write_page


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "folder", lambda: tmp_path)
    targets.shard_file.cache_clear()


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_returns_or_raises_an_error_of_ours(name):
    target = TARGETS[name]
    inputs, chance = seeds(target.seeds), random.Random(name)
    for number in range(120):
        data = mutated(chance, inputs, target.most_bytes)
        try:
            target(data)
        except BaseException as error:
            raise AssertionError(f"input {number}: {data!r}") from error


def test_mutations_differ_and_keep_the_limit():
    made = {mutated(random.Random(seed), [b"0123456789" * 3], 20) for seed in range(100)}
    assert len(made) > 80
    assert max(map(len, made)) <= 20


def test_counts_are_summed_over_runs_and_shown_on_the_page(tmp_path):
    counts, page = tmp_path / "counts.json", tmp_path / "page.md"
    page.write_text(f"before\n{START}\nold\n{STOP}\nafter\n")
    for inputs in (1000, 234):
        add_counts("parser", "thrift", {"inputs": inputs, "findings": 0}, counts)
    assert read_counts(counts) == {"parser": {"thrift": {"inputs": 1234, "findings": 0}}}
    write_page(page, counts)
    text = page.read_text()
    assert "| thrift | 0 | 1,234 |" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert json.loads(counts.read_text())


@pytest.mark.parametrize("dtype", [",", "3f4, i8", "(2,)f4", "f4,", "", "O", "M8[s]"])
def test_a_dtype_that_is_a_list_or_an_expression_is_refused(dtype):
    with pytest.raises(MetadataError, match="unknown dtype"):
        feature_from_json("action", {"dtype": dtype, "shape": [2]})
