"""What lies beside a dataset comes along to a new one; what links lead to is said, or left out."""

import pytest

from roboreel import open_dataset
from roboreel.edit import edit_dataset, plan_merge
from roboreel.errors import EditError, MissingFileError
from tests.clean import clean_dataset


@pytest.fixture
def old(tmp_path):
    return clean_dataset(tmp_path / "old", "v2.1")


def beside(folder):
    own = ("data/", "videos/", "meta/episodes", "meta/info", "meta/tasks", ".roboreel")
    every = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name for name in every if not name.startswith(own)}


def test_a_linked_file_from_elsewhere_is_copied_and_the_plan_says_so(old, tmp_path):
    (tmp_path / "secret.txt").write_text("key")
    (old / "docs").mkdir()
    (old / "docs" / "note.txt").symlink_to(tmp_path / "secret.txt")
    (old / "README.md").write_text("an arm")
    (old / "again.md").symlink_to("README.md")
    plan = plan_merge([old, old], tmp_path / "new")
    assert "outside the folder, whose content is copied: 'docs/note.txt'." in str(plan)
    assert plan.to_json()["copied_from_outside"] == ["docs/note.txt"]
    plan.apply()
    assert beside(tmp_path / "new") == {"docs/note.txt", "README.md", "again.md"}
    assert "outside" not in str(edit_dataset(old).delete([1]).plan())  # nothing is copied in place


def test_links_to_folders_and_to_files_of_the_dataset_are_left_out_and_named(old, tmp_path):
    video = sorted(old.rglob("*.mp4"))[1]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "private.txt").write_text("x")
    (old / "elsewhere").symlink_to(tmp_path / "elsewhere")
    (old / "itself").symlink_to(old)
    (old / "preview.mp4").symlink_to(video)
    (old / "gone").symlink_to(tmp_path / "nowhere")
    plan = edit_dataset(old).delete([1]).plan(tmp_path / "new")
    assert plan.to_json()["left_out"] == ["elsewhere", "itself", "preview.mp4"]
    assert "left out: 'elsewhere', 'itself', 'preview.mp4'." in str(plan)
    plan.apply()
    assert beside(tmp_path / "new") == set()


def test_links_of_the_hubs_cache_are_followed_without_a_word(old, tmp_path):
    cached = tmp_path / "cache" / "snapshots" / "abc"
    blobs = tmp_path / "cache" / "blobs"
    blobs.mkdir(parents=True)
    (old / "README.md").write_text("an arm")
    for number, path in enumerate(sorted(p for p in old.rglob("*") if p.is_file())):
        place = cached / path.relative_to(old)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(blobs / str(number))
        place.symlink_to(blobs / str(number))
    plan = edit_dataset(cached).delete([1]).plan(tmp_path / "new")
    assert plan.side_files.outside == plan.side_files.left_out == ()
    plan.apply()
    assert beside(tmp_path / "new") == {"README.md"}


def test_an_operation_on_no_episode_is_no_change(old):
    edit = edit_dataset(old).delete([]).set_task([], "wave").set([], {"success": True})
    assert not edit.plan()


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (lambda edit: edit.keep(where="length > 900"), "none of them has length > 900"),
        (lambda edit: edit.trim(1, start=4, stop=4), "episode 1 has 12 frames"),
        (lambda edit: edit.cut(1), "Say where to cut episode 1"),
    ],
)
def test_what_leaves_nothing_is_refused_with_the_reason(operation, said, old):
    with pytest.raises(EditError, match=said):
        operation(edit_dataset(old))


def test_a_missing_video_is_refused_with_a_way_on(old, tmp_path):
    for path in old.rglob("*_000002.mp4"):
        path.unlink()
    with pytest.raises(MissingFileError, match="delete its episodes by the same edit"):
        edit_dataset(old).set_task([0], "wave").plan()
    edit_dataset(old).set_task([0], "wave").delete([2]).apply()
    assert len(open_dataset(old).episodes) == 5
