"""Whatever is done to its files, a dataset is read or refused with an error of ours."""

import pytest

from tests.mutation import KINDS, exercise, make, mutate

_QUICK = {"image-v3": 2, "video-v3": 1, "video-v2": 1, "numeric-v3": 5, "numeric-v2": 5}
_SLOW = 400


def outcomes(kind, seeds, folder):
    found = {}
    for seed in seeds:
        made = folder / str(seed)
        make(kind, made)
        done = mutate(seed, made)
        try:
            found[seed] = exercise(kind, made)
        except BaseException as error:
            error.add_note(f"Seed {seed} of {kind}: {done}") if hasattr(error, "add_note") else None
            raise
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_not_damaged_is_read(kind, tmp_path):
    make(kind, tmp_path / "whole")
    assert exercise(kind, tmp_path / "whole") == "read"


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_read_or_refused_with_an_error_of_ours(kind, tmp_path):
    count = _QUICK.get(kind, 12)
    assert len(outcomes(kind, range(count), tmp_path)) == count


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_much_damage_is_read_or_refused_with_an_error_of_ours(kind, tmp_path):
    assert len(outcomes(kind, range(_SLOW), tmp_path)) == _SLOW


def test_a_seed_does_the_same_damage_every_time(tmp_path):
    for name in ("one", "other"):
        make("numeric-v2", tmp_path / name)
    assert mutate(5, tmp_path / "one") == mutate(5, tmp_path / "other")
