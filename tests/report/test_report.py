"""The page about a dataset: complete, harmless, and right about what is wrong."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import roboreel as reel
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.frames.picture_columns import PictureColumns
from roboreel.report import write_report
from roboreel.report.distribution import spread
from roboreel.report.survey import survey_dataset
from roboreel.schema import Feature
from tests import factory
from tests.browser import Browser, needs_chromium
from tests.clean import clean_dataset
from tests.corruptions import CORRUPTIONS
from tests.surgery import Folder

ATTACK = "<script>document.title='owned'</script><img src=http://example.invalid/x>'\"&"


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    spec = DemoSpec(episodes=3, frames=20, cameras=2, size=(96, 128))
    return make_demo_dataset(tmp_path_factory.mktemp("report") / "arm", spec)


def page_of(root, out):
    return write_report(reel.open_dataset(root), out / "report.html").read_text(encoding="utf-8")


def test_the_page_has_totals_features_tasks_values_and_images(arm, tmp_path):
    page = page_of(arm, tmp_path)
    assert "<b>3</b><span>episodes</span>" in page
    for text in ("observation.state", "hand_x", "reach the red target", "96 × 128 × 3"):  # noqa: RUF001
        assert text in page
    assert page.count("data:image/jpeg;base64,") == 3 * 2 * 3
    assert page.count('class="range"') == 6 + 2 + 1 + 1
    assert "Nothing that was checked looks wrong." in page


def test_a_page_refers_to_nothing_outside_of_itself(arm, tmp_path):
    page = page_of(arm, tmp_path)
    assert re.findall(r"(?:src|href)=['\"](?!data:)", page) == []
    assert "default-src &#x27;none&#x27;" in page
    assert "<script" not in page


def test_what_comes_from_the_dataset_is_text_and_never_markup(tmp_path, monkeypatch):
    monkeypatch.setattr(factory, "TASKS", {0: ATTACK, 1: "<b>bold</b>"})
    features = {
        "<i>name</i>": Feature("float32", (2,), names=("<u>x</u>", "y")),
        "note": Feature("string", (1,)),
    }
    factory.write_dataset(tmp_path / "data", [4, 4], features=features)
    page = page_of(tmp_path / "data", tmp_path)
    for markup in ("<script", "<img src=http", "<b>bold", "<i>", "<u>"):
        assert markup not in page
    assert "&lt;script&gt;" in page


def test_broken_values_are_named(tmp_path, monkeypatch):
    plain = factory.columns_of

    def columns_of(*arguments):
        columns = plain(*arguments)
        columns["action"] = columns["action"].astype(np.float32)
        columns["action"][1] = np.nan
        columns["observation.state"] = np.ones((len(columns["index"]), 3))
        columns["next.reward"] = np.r_[np.linspace(0, 1, len(columns["index"]) - 1), 1e6]
        return columns

    monkeypatch.setattr(factory, "columns_of", columns_of)
    factory.write_dataset(tmp_path / "data", [300, 400, 9])
    doubts = "\n".join(survey_dataset(reel.open_dataset(tmp_path / "data")).doubts)
    assert "error RR601: 'action' is NaN in 1 row of episode 0, first at frame 1." in doubts
    assert "note RR603: 'observation.state' never changes: 1 in all 709 rows." in doubts
    assert (
        "next.reward has outliers, the farthest in episode 0: it ranges from 0 to 1e+06" in doubts
    )
    assert "Episode 2 has less than a fifth of the typical 300 frames." in doubts
    assert "RR503: 'action' has no statistics." in doubts


def test_a_missing_video_does_not_keep_the_rest_from_being_shown(tmp_path):
    features = {**factory.NUMBERS, "top": Feature("video", (8, 12, 3))}
    factory.write_dataset(tmp_path / "data", [5], features=features)
    page = page_of(tmp_path / "data", tmp_path)
    assert "Episode 0, top: There is no video file" in page
    assert "observation.state" in page


def test_an_empty_dataset_has_a_page(tmp_path):
    factory.write_dataset(tmp_path / "data", [])
    page = page_of(tmp_path / "data", tmp_path)
    assert "There are no episodes." in page
    assert "<h2>Tasks</h2>" not in page


def test_of_a_huge_dataset_some_rows_are_read_and_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("roboreel.report.survey._MOST_ROWS", 128)
    factory.write_dataset(tmp_path / "data", [500, 500])
    assert "From 128 of 1,000 frames" in page_of(tmp_path / "data", tmp_path)


def test_of_many_episodes_a_handful_of_images_is_read(tmp_path, monkeypatch):
    features = {**factory.NUMBERS, "top": Feature("image", (8, 12, 3))}
    factory.write_dataset(tmp_path / "data", [3] * 100, features=features, episodes_per_file=25)
    rows: list[int] = []
    plain = PictureColumns.read

    def read(self, camera, wanted):
        rows.extend(wanted.tolist())
        return plain(self, camera, wanted)

    monkeypatch.setattr(PictureColumns, "read", read)
    page = page_of(tmp_path / "data", tmp_path)
    assert "<b>100</b><span>episodes</span>" in page
    assert page.count("data:image/jpeg;base64,") == 4 * 3
    assert len(rows) == 4 * 3
    assert {row // 3 for row in rows} == {0, 33, 66, 99}


@given(
    arrays(
        np.float64, st.integers(1, 60), elements=st.floats(allow_nan=False, allow_infinity=False)
    )
)
@example(np.array([5e-324, 0.0]))
@example(np.array([2.2250738585e-313, 0.0, 0.0]))
@example(np.array([1.7e308, -1.7e308]))
@example(np.full(3, 1e17))
def test_a_distribution_counts_every_value_once(values):
    (shown,) = spread(values[:, None], ["x"])
    assert shown.bins.sum() == len(values)
    assert shown.minimum == values.min()
    assert shown.maximum == values.max()
    assert shown.minimum <= shown.low <= shown.median <= shown.high <= shown.maximum
    assert shown.is_constant == bool((values == values[0]).all())


def test_values_that_are_not_finite_are_counted_apart():
    (shown,) = spread(np.array([[1.0], [np.nan], [3.0], [np.inf]]), ["x"])
    assert (shown.broken, shown.mean) == (2, 2.0)
    (nothing,) = spread(np.full((3, 1), np.nan), ["x"])
    assert nothing.broken == 3


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize(
    "name", ["video-missing", "video-cut-in-half", "swapped-videos", "dangling-task-index"]
)
def test_the_page_names_what_check_finds_with_its_episode(name, version, tmp_path):
    root = clean_dataset(tmp_path / "d", version)
    corruption = next(one for one in CORRUPTIONS if one.name == name)
    place = corruption.apply(root)
    page = page_of(root, tmp_path)
    lines = [line for line in re.findall("<li>(.*?)</li>", page) if corruption.code in line]
    assert lines
    assert any(
        re.search(rf"[Ee]pisodes? .*\b{episode}\b", "".join(lines)) for episode in place.episodes
    )
    assert "looks wrong" not in page


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize(
    "name",
    ["lfs-pointer-video", "lfs-pointer-data", "mixed-sizes", "no-keyframe-table", "column-missing"],
)
def test_a_line_about_a_file_names_its_episodes(name, version, tmp_path):
    root = clean_dataset(tmp_path / "d", version)
    corruption = next(one for one in CORRUPTIONS if one.name == name)
    place = corruption.apply(root)
    page = page_of(root, tmp_path)
    [line] = [line for line in re.findall("<li>(.*?)</li>", page) if f" {corruption.code}:" in line]
    [named] = re.findall(r"[Ee]pisodes? (\d+(?:(?:, | and )\d+)*)", line)
    assert str(place.episodes[0]) in re.findall(r"\d+", named)


def test_the_page_says_what_was_not_looked_at(arm, tmp_path):
    assert "Images were not decoded: use roboreel check --deep." in page_of(arm, tmp_path)


def test_the_page_of_some_episodes_is_about_those(tmp_path):
    root = clean_dataset(tmp_path / "d", "v2.1")
    Folder(root).edit_column(2, "task_index", lambda values: [99] * len(values))
    dataset = reel.open_dataset(root)
    doubts = {n: "".join(survey_dataset(dataset.select([n])).doubts) for n in (1, 2)}
    assert "RR207" not in doubts[1]
    assert "RR207" in doubts[2]


@pytest.mark.long
@needs_chromium
def test_a_browser_shows_the_plots_in_light_and_dark_and_asks_for_nothing(arm, tmp_path):
    path = write_report(reel.open_dataset(arm), tmp_path / "report.html")
    with Browser() as browser:
        browser.open(path.as_uri())
        bright = browser.pixels().mean()
        assert browser.requests == [path.as_uri()]
        broken = "[...document.images].filter(i => !i.complete || !i.naturalWidth).length"
        assert browser.evaluate("document.images.length") == 18
        assert browser.evaluate(broken) == 0
        tall = "[...document.querySelectorAll('svg.wide .bar')].filter("
        tall += "b => b.getBoundingClientRect().height > 10).length"
        assert browser.evaluate(tall) >= 2
        overflow = "document.documentElement.scrollWidth - innerWidth"
        assert browser.evaluate(overflow) <= 0
        browser.open(path.as_uri(), dark=True)
        assert bright > 180
        assert browser.pixels().mean() < 80
