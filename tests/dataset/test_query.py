"""Conditions on episodes: how they are read, and which episodes they keep."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roboreel as reel
from roboreel.dataset.query import column_of, evaluate, parse
from roboreel.dataset.query.columns import make_column
from roboreel.dataset.query.parse import MOST_DEPTH
from roboreel.errors import QueryError
from tests.factory import TASKS, write_dataset_v2

LENGTHS = [3, 1, 7, 2, 5, 4]
METADATA = {
    "success": [True, False, None, True, True, False],
    "operator": ["ann", "bob", "ann", None, "O'Hara", "bob"],
    "score": [0.5, 2, None, math.nan, -1, 9],
    "tags": [["a", "bc"], [], None, ["b"], ["a"], ["c"]],
    "odd column/1": [1, 2, 3, 4, 5, 6],
    "mixed": [1, "x", None, None, None, None],
    "never": [None] * 6,
}


def write(root, lengths=LENGTHS, metadata=METADATA):
    import json

    write_dataset_v2(root, lengths)
    path = root / "meta" / "episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for place, line in enumerate(lines):
        line.update({name: values[place] for name, values in metadata.items()})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("query")
    write(root)
    return reel.open_dataset(root)


def kept(dataset, condition):
    return dataset.where(condition).episodes.numbers.tolist()


@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        ("length > 3", [2, 4, 5]),
        ("length>=3 and length<=5", [0, 4, 5]),
        ("length > 3 AND NOT length = 7", [4, 5]),
        ("length = 3 OR length == 1", [0, 1]),
        ("episode != 0 and episode < 3", [1, 2]),
        ("success", [0, 3, 4]),
        ("not success", [1, 5]),
        ("success = false", [1, 5]),
        ("success is null", [2]),
        ("success is not null and not success", [1, 5]),
        ("operator = 'ann'", [0, 2]),
        ('operator = "O\'Hara"', [4]),
        ("operator = 'O''Hara'", [4]),
        ("operator in ('ann', 'bob')", [0, 1, 2, 5]),
        ("operator not in ('ann', 'bob')", [4]),
        ("operator in ['ann', 'bob']", [0, 1, 2, 5]),
        ("length in [1]", [1]),
        ("operator contains 'b'", [1, 5]),
        ("operator not contains 'b'", [0, 2, 4]),
        ("operator > 'ann'", [1, 5]),
        ("score > -1.5e0", [0, 1, 4, 5]),
        ("score is null", [2, 3]),
        ("task contains 'pick' or length = 1", None),
        (f"task = '{TASKS[0]}'", [0, 2, 4]),
        (f"tasks != '{TASKS[0]}'", [1, 3, 5]),
        (f"task in ('{TASKS[1]}', 'another')", [1, 3, 5]),
        ("tags = 'a'", [0, 4]),
        ("tags contains 'c'", [0, 5]),
        ("tags != 'a'", [1, 3, 5]),
        ("tags in ('b', 'c')", [3, 5]),
        ("`odd column/1` <= 2", [0, 1]),
        ("length > p50(length)", [2, 4, 5]),
        ("length >= p100(length)", [2]),
        ("score >= p100(score)", [5]),
        ("length > p50(never)", []),
        ("never = 3 or length = 3", [0]),
        ("never", []),
        ("success or length = 7", [0, 2, 3, 4]),
        ("not (success and length < 100)", [1, 5]),
        ("not not success", [0, 3, 4]),
        ("true", [0, 1, 2, 3, 4, 5]),
        ("3 < length", [2, 4, 5]),
        ("length < `odd column/1`", [1, 3, 5]),
    ],
)
def test_a_condition_keeps_these_episodes(dataset, condition, numbers):
    if numbers is None:
        numbers = [n for n in range(6) if "pick" in TASKS[n % 2] or LENGTHS[n] == 1]
    assert kept(dataset, condition) == numbers


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("", "Expected a value, at the end"),
        ("length >", "Expected a value, at the end"),
        ("length > 3 4", r"Expected 'and', 'or' or the end, at '4', character 12"),
        ("1 < length < 5", "Expected 'and', 'or' or the end, at '< 5'"),
        ("length $ 3", r"'\$' has no meaning here, at '\$ 3', character 8"),
        ("task = 'cube", 'A quote is not closed, at "\'cube"'),
        ("(length > 3", r"Expected '\)', at the end"),
        ("operator in ann", r"Expected '\(', at 'ann'"),
        ("operator in (ann)", "Expected a value: a text needs quotes, at 'ann"),
        ("operator in ()", "Expected a value"),
        ("operator in []", "Expected a value"),
        ("operator in ['ann')", r"Expected '\]', at '\)'"),
        ("[length > 3]", r"Expected a value, at '\[length"),
        (None, "A condition is a text, .* not None"),
        ("length not 3", "Expected 'in' or 'contains' after 'not'"),
        ("p95", "There is no column 'p95'"),
        ("p101(length) > 2", "There is no function 'p101'"),
        ("mean(length) > 2", "There is no function 'mean'"),
        ("p95(3) > 2", "Expected the name of a column"),
        ("task = cube", "no column 'cube': there are episode, length, task, success, operator"),
        ("length", "length is a number, not true or false"),
        ("success = 'yes'", "success is true or false, 'yes' is a text"),
        ("success < true", "cannot be tested"),
        ("length in (1, 'x')", "length is a number, 'x' is a text"),
        ("length contains '3'", "length is a number"),
        ("task < 'a'", "task is a list of texts"),
        ("mixed = 1", "mixed is of several kinds"),
        ("p50(operator) = 1", "operator is a text: it has no quantiles"),
        ("length > " + "9" * 400, "more than 300 digits"),
    ],
)
def test_a_wrong_condition_is_refused_with_the_reason(dataset, condition, said):
    with pytest.raises(QueryError, match=said):
        dataset.where(condition)


def test_it_is_never_run_as_python(dataset):
    for condition in ("__import__('os').system('true')", "length.__class__", "exec('1')"):
        with pytest.raises(QueryError):
            dataset.where(condition)


def test_nesting_has_a_limit_and_joining_has_none():
    parse("(" * MOST_DEPTH + "success" + ")" * MOST_DEPTH)
    for deep in ("(" * 10_000 + "success", "not " * 10_000 + "success"):
        with pytest.raises(QueryError, match=f"More than {MOST_DEPTH} levels"):
            parse(deep)
    parse(" or ".join(["length = 1"] * 5000))
    with pytest.raises(QueryError, match="at most 100,000"):
        parse("a" * 100_001)


def test_quantiles_are_those_of_the_view(dataset):
    assert kept(dataset.select([0, 1, 3]), "length >= p100(length)") == [0]


def test_conditions_can_follow_one_another(dataset):
    assert kept(dataset.where("length > 1").where("success"), "length < 5") == [0, 3]


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_an_error_of_ours(text):
    _answer_or_refuse(text)


WORDS = ["length", "p9(length)", "(", ")", "and", "or", "not", "in", "contains", "is", "null"]
WORDS += ["=", "<", ">=", "!=", "'a'", "3", "-1.5", ",", "true", "flag", "`x y`"]


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_any_words_are_a_condition_or_an_error_of_ours(text):
    _answer_or_refuse(text)


def _answer_or_refuse(text):
    columns: dict[str, list[Any]] = {"length": [1, 2], "flag": [True, None], "x y": ["a", "b"]}

    def find(name):
        if name not in columns:
            raise QueryError(name)
        return make_column(name, columns[name])

    try:
        mask = evaluate(parse(text), 2, find)
    except QueryError:
        return
    assert mask.shape == (2,)


# A condition as text, with a slow and obvious function that answers it.
COLUMNS: dict[str, list[Any]] = {
    "a": [1, 2, None, 4],
    "b": [2, 2, 2, None],
    "f": [True, False, None, True],
}


def leaf(text, answer):
    return st.just((text, answer))


def compare(first, sign, second, test):
    def answer(row):
        one, other = (row[x] if isinstance(x, str) else x for x in (first, second))
        return None if one is None or other is None else test(one, other)

    return leaf(f"{first} {sign} {second}", answer)


LEAVES = st.one_of(
    compare("a", "<", "b", lambda x, y: x < y),
    compare("a", "=", 2, lambda x, y: x == y),
    compare("b", "!=", "a", lambda x, y: x != y),
    leaf("f", lambda row: row["f"]),
    leaf("a in (1, 4)", lambda row: None if row["a"] is None else row["a"] in (1, 4)),
    leaf("b is null", lambda row: row["b"] is None),
)


def negated(part):
    text, answer = part

    def opposite(row):
        return None if answer(row) is None else not answer(row)

    return f"not ({text})", opposite


def joined(parts, word):
    def answer(row):
        answers = [part[1](row) for part in parts]
        decisive = word == "or"
        return decisive if decisive in answers else None if None in answers else not decisive

    return f" {word} ".join(f"({text})" for text, _ in parts), answer


def grow(inner):
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        inner.map(negated),
        several.map(lambda parts: joined(parts, "and")),
        several.map(lambda parts: joined(parts, "or")),
    )


@given(st.recursive(LEAVES, grow, max_leaves=8))
def test_every_condition_is_answered_as_by_hand(condition):
    text, answer = condition
    rows = [
        dict(zip(COLUMNS, values, strict=True)) for values in zip(*COLUMNS.values(), strict=True)
    ]
    mask = evaluate(parse(text), 4, lambda name: make_column(name, COLUMNS[name]))
    assert mask.tolist() == [answer(row) is True for row in rows]


def test_looking_at_lengths_and_tasks_reads_no_metadata(tmp_path):
    write(tmp_path)
    dataset = reel.open_dataset(tmp_path)
    (tmp_path / "meta" / "episodes.jsonl").unlink()
    assert kept(dataset, "length > 3 and task contains 'e'") is not None


def test_whole_numbers_are_compared_exactly():
    column = make_column("n", [2**60, 2**60 + 1])
    mask = evaluate(parse(f"n = {2**60 + 1}"), 2, lambda name: column)
    assert mask.tolist() == [False, True]


def test_columns_are_found_by_a_view(dataset):
    find = partial(column_of, dataset.select([1, 4]))
    assert find("length").values == [1, 5]
    assert find("operator").values == ["bob", "O'Hara"]
    assert np.array_equal(find("episode").values, [1, 4])
