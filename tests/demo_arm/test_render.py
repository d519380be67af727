"""Cameras see the arm, its targets and the block where the scene has them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.demo_arm.arm import simulate_episode
from roboreel.demo_arm.canvas import Canvas, View
from roboreel.demo_arm.render import CAMERAS, render
from roboreel.demo_arm.scene import Point, Scene, inverse_kinematics

RED, BLUE, BLOCK, GOAL = (-0.2, 0.25), (0.25, 0.2), (0.05, 0.22), (0.05, 0.33)


def scene_with(hand: Point = (-0.05, 0.15), **places: Point) -> Scene:
    marks = {"block": BLOCK, "red": RED, "blue": BLUE, "goal": GOAL} | places
    return Scene(inverse_kinematics(hand), **marks)


@pytest.mark.parametrize("camera", CAMERAS)
@pytest.mark.parametrize("size", [(48, 64), (64, 48), (33, 65)])
def test_every_camera_gives_an_image_of_the_size_asked_for(camera, size):
    image = render(scene_with(), camera, size)
    assert image.shape == (*size, 3)
    assert image.dtype == np.uint8
    assert image.std() > 5


def test_the_front_camera_sees_each_thing_in_its_place():
    image = render(scene_with(), "front", (240, 320)).astype(int)
    view = View((240, 320), (0.0, 0.17), 240 / 0.54)
    seen = {}
    for name, place in (("red", RED), ("blue", BLUE), ("block", BLOCK)):
        row, column = view.pixel(place)
        seen[name] = image[round(row), round(column)].argmax()
    assert seen == {"red": 0, "blue": 2, "block": 1}


def test_what_moves_is_seen_to_move():
    before, after = scene_with(), scene_with(hand=(-0.1, 0.15))
    for camera in CAMERAS:
        images = [render(scene, camera, (48, 64)).astype(int) for scene in (before, after)]
        assert np.abs(images[0] - images[1]).max() > 20


def test_targets_are_not_remembered_from_an_earlier_episode():
    first = render(scene_with(), "front", (48, 64))
    render(scene_with(red=(0.2, 0.3)), "front", (48, 64))
    assert np.array_equal(render(scene_with(), "front", (48, 64)), first)
    assert not np.array_equal(render(scene_with(red=(0.2, 0.3)), "front", (48, 64)), first)


def test_the_wrist_camera_keeps_the_hand_at_its_place():
    scenes = simulate_episode(0, 0, 20, 10).scenes
    images = [render(scene, "wrist", (96, 128)).astype(int) for scene in (scenes[0], scenes[-1])]
    # The amber dot of the hand: a little below the middle, since the camera looks ahead.
    hand = images[0][60:64, 62:66]
    assert np.abs(hand - images[1][60:64, 62:66]).max() <= 3
    assert (hand[..., 0] > hand[..., 2] + 60).any()


def test_an_unknown_camera_is_refused():
    with pytest.raises(ValueError, match="No camera 'back': there are front, wrist"):
        render(scene_with(), "back", (48, 64))


@given(
    middle=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    turn=st.floats(-3, 3),
    radius=st.floats(0.01, 0.5),
)
def test_a_disc_covers_what_lies_within_its_radius(middle, turn, radius):
    view = View((24, 32), (0.1, -0.2), 20.0, turn=turn)
    canvas = Canvas(view, np.zeros((3, 24, 32), dtype=np.float32))
    canvas.disc(middle, radius, (255.0, 255.0, 255.0))
    row, column = view.pixel(middle)
    rows, columns = np.mgrid[:24, :32] + 0.5
    distance = np.hypot(rows - row, columns - column) / 20.0
    expected = 255 * np.clip(0.5 - (distance - radius) * 20.0, 0, 1)
    np.testing.assert_allclose(canvas.planes, [expected] * 3, atol=0.2)
