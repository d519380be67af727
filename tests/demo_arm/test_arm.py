"""The simulated arm does its tasks, within its limits, and the same way every time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.demo_arm.arm import ACTION_NAMES, STATE_NAMES, TASKS, simulate_episode
from roboreel.demo_arm.scene import (
    JOINT_LIMITS,
    LINKS_M,
    Scene,
    forward_kinematics,
    inverse_kinematics,
)


@pytest.mark.parametrize("episode", range(9))
@pytest.mark.parametrize("fps", [10, 29.97, 50])
def test_every_task_is_done_at_the_end_of_an_episode(episode, fps):
    run = simulate_episode(0, episode, 90, fps)
    last = run.scenes[-1]
    if run.task == TASKS[2]:
        assert math.dist(run.scenes[0].block, last.goal) > 0.08
        assert math.dist(last.block, last.goal) < 0.01
    else:
        target = last.red if run.task == TASKS[0] else last.blue
        assert math.dist(forward_kinematics(last.joints)[1], target) < 0.01
    assert run.reward[-1] > 0.9 > run.reward[0]


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not():
    a, b, c = (simulate_episode(seed, 5, 40, 30) for seed in (1, 1, 2))
    for name in ("state", "action", "reward", "done"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes()
    assert a.scenes == b.scenes
    assert not np.array_equal(a.state[0], c.state[0])


def test_episodes_of_one_dataset_differ():
    first, second = simulate_episode(0, 0, 40, 30), simulate_episode(0, 3, 40, 30)
    assert first.task == second.task
    assert first.scenes[0].red != second.scenes[0].red


def test_lengths_differ_around_the_one_asked_for():
    lengths = [len(simulate_episode(7, episode, 50, 30)) for episode in range(40)]
    assert 40 <= min(lengths) < 45
    assert 55 < max(lengths) <= 60
    assert {len(simulate_episode(7, e, 50, 30, variation=0)) for e in range(4)} == {50}
    assert len(simulate_episode(7, 0, 1, 30)) == 2


def test_values_are_what_the_names_say():
    run = simulate_episode(0, 2, 30, 30, variation=0)
    assert run.state.shape == (30, len(STATE_NAMES))
    assert run.action.shape == (30, len(ACTION_NAMES))
    assert run.reward.shape == run.done.shape == (30,)
    assert {run.state.dtype, run.action.dtype, run.reward.dtype} == {np.dtype(np.float32)}
    assert run.done.tolist() == [False] * 29 + [True]
    hands = [forward_kinematics(scene.joints)[1] for scene in run.scenes]
    np.testing.assert_allclose(run.state[:, 4:], hands, rtol=1e-6)
    np.testing.assert_allclose(run.state[:, :2], [scene.joints for scene in run.scenes], rtol=1e-6)


def test_an_action_is_where_the_joints_are_going():
    run = simulate_episode(0, 0, 90, 30, variation=0)
    here, there = run.state[:-1, :2], run.state[1:, :2]
    assert np.abs(run.action[:-1] - there).max() < np.abs(run.action - run.action[-1]).max() / 4
    assert np.abs(run.action[:-1] - there).mean() < np.abs(run.action[:-1] - here).mean()


@given(st.integers(0, 2**32), st.integers(0, 10_000))
def test_joints_stay_within_their_limits(seed, episode):
    run = simulate_episode(seed, episode, 12, 10)
    for axis, (low, high) in enumerate(JOINT_LIMITS):
        assert (run.state[:, axis] >= np.float32(low)).all()
        assert (run.state[:, axis] <= np.float32(high)).all()


@given(st.floats(0.12, 0.39), st.floats(0.1, 3.0))
def test_inverse_kinematics_brings_the_hand_to_the_point(radius, angle):
    point = (radius * math.cos(angle), radius * math.sin(angle))
    elbow, hand = forward_kinematics(inverse_kinematics(point))
    assert math.dist(hand, point) < 1e-9
    assert math.isclose(math.hypot(*elbow), LINKS_M[0])


def test_a_hand_from_the_side_does_not_move_the_block():
    block, goal = (0.0, 0.22), (0.0, 0.32)
    scene = Scene((0, 2), block=block, red=(0.2, 0.2), blue=(-0.2, 0.2), goal=goal)
    assert scene.with_joints(inverse_kinematics((0.03, 0.22))).block == block
    pushed = scene.with_joints(inverse_kinematics((0.0, 0.196))).block
    assert pushed[1] > block[1]
