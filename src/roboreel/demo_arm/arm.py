"""A planar two-joint arm that reaches for targets and pushes a block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roboreel.demo_arm.scene import (
    BLOCK_CONTACT_M,
    JOINT_LIMITS,
    Point,
    Scene,
    forward_kinematics,
    inverse_kinematics,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["ACTION_NAMES", "STATE_NAMES", "TASKS", "SimulatedEpisode", "simulate_episode"]

STATE_NAMES = ("shoulder", "elbow", "shoulder_velocity", "elbow_velocity", "hand_x", "hand_y")
ACTION_NAMES = ("shoulder", "elbow")
TASKS = ("reach the red target", "reach the blue target", "push the green block to the goal")

# The joints respond like critically damped springs: they lag a little, and never oscillate.
_STIFFNESS = 30.0
_SHAKE = 2.5
_MAX_SPEED = 6.0
_STEP_S = 1 / 240
# The hand arrives after this part of an episode, and holds still for the rest of it.
_ARRIVAL = 0.78
_APPROACH = 0.4


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedEpisode:
    """One run of the arm: ``T`` frames, and what a camera would have seen at each of them."""

    task: str
    state: NDArray[np.float32]
    """``(T, 6)``: see `STATE_NAMES`; radians, radians per second, metres."""
    action: NDArray[np.float32]
    """``(T, 2)``: target of the joints for the next frame, in radians."""
    reward: NDArray[np.float32]
    """``(T,)``: after the action, 1 at the goal and falling to 0 with the distance from it."""
    done: NDArray[np.bool_]
    """``(T,)``: true at the last frame only."""
    scenes: tuple[Scene, ...]

    def __len__(self) -> int:
        return len(self.scenes)


def simulate_episode(
    seed: int, episode: int, frames: int, fps: float, *, variation: float = 0.2
) -> SimulatedEpisode:
    """Return one episode; the same arguments give the same bytes.

    Args:
        seed: The seed of the whole dataset.
        episode: Number of the episode; its task is ``TASKS[episode % 3]``.
        frames: Length of an episode: the average one, or the exact one without variation.
        fps: Frames per second.
        variation: How much lengths vary, up and down, as a share of ``frames``. An episode has at
            least two frames.
    """
    rng = np.random.default_rng([seed, episode])
    count = max(2, round(frames * (1 + variation * (2 * rng.random() - 1))))
    task = TASKS[episode % len(TASKS)]
    scene = _random_scene(rng)
    goal = {TASKS[0]: scene.red, TASKS[1]: scene.blue}.get(task, scene.goal)
    plan = _plan_push(scene) if task == TASKS[2] else _plan_reach(scene, goal)
    shakes = rng.normal(0.0, _SHAKE, (count, 2))
    velocity = (0.0, 0.0)
    scenes, states, actions, rewards = [], [], [], []
    for frame in range(count):
        action = plan((frame + 1) / max(count - 1, 1))
        scenes.append(scene)
        states.append((*scene.joints, *velocity, *forward_kinematics(scene.joints)[1]))
        actions.append(action)
        shake = (float(shakes[frame, 0]), float(shakes[frame, 1]))
        scene, velocity = _follow(scene, velocity, action, shake, 1 / fps)
        moved = scene.block if task == TASKS[2] else forward_kinematics(scene.joints)[1]
        rewards.append(1 - math.tanh(math.dist(moved, goal) / 0.1))
    done = np.zeros(count, dtype=np.bool_)
    done[-1] = True
    return SimulatedEpisode(
        task,
        state=np.array(states, dtype=np.float32),
        action=np.array(actions, dtype=np.float32),
        reward=np.array(rewards, dtype=np.float32),
        done=done,
        scenes=tuple(scenes),
    )


def _follow(
    scene: Scene, velocity: Point, target: Point, shake: Point, duration_s: float
) -> tuple[Scene, Point]:
    """Return the scene and the joints' velocities after following a target for a while."""
    steps = max(1, math.ceil(duration_s / _STEP_S))
    step_s = duration_s / steps
    angles, speeds = list(scene.joints), list(velocity)
    for _ in range(steps):
        for axis, (low, high) in enumerate(JOINT_LIMITS):
            pull = _STIFFNESS**2 * (target[axis] - angles[axis])
            speed = speeds[axis] + step_s * (pull - 2 * _STIFFNESS * speeds[axis] + shake[axis])
            speed = min(max(speed, -_MAX_SPEED), _MAX_SPEED)
            angle = angles[axis] + step_s * speed
            if not low <= angle <= high:
                angle, speed = min(max(angle, low), high), 0.0
            angles[axis], speeds[axis] = angle, speed
        scene = scene.with_joints((angles[0], angles[1]))
    return scene, (speeds[0], speeds[1])


def _plan_reach(scene: Scene, goal: Point) -> Callable[[float], Point]:
    start, stop = scene.joints, inverse_kinematics(goal)
    return lambda progress: _between(start, stop, _minimum_jerk(progress / _ARRIVAL))


def _plan_push(scene: Scene) -> Callable[[float], Point]:
    """Return a plan: go behind the block, then straight to the goal."""
    east, north = scene.push_direction
    behind = (
        scene.block[0] - (BLOCK_CONTACT_M + 0.03) * east,
        scene.block[1] - (BLOCK_CONTACT_M + 0.03) * north,
    )
    at_goal = (scene.goal[0] - BLOCK_CONTACT_M * east, scene.goal[1] - BLOCK_CONTACT_M * north)
    start, ready = scene.joints, inverse_kinematics(behind)

    def plan(progress: float) -> Point:
        if progress < _APPROACH:
            return _between(start, ready, _minimum_jerk(progress / _APPROACH))
        pushed = _minimum_jerk((progress - _APPROACH) / (_ARRIVAL - _APPROACH))
        return inverse_kinematics(_between(behind, at_goal, pushed))

    return plan


def _random_scene(rng: np.random.Generator) -> Scene:
    """Return a scene whose objects lie within reach and do not overlap."""

    def place(low_m: float, high_m: float) -> Point:
        return _polar(rng.uniform(low_m, high_m), rng.uniform(0.14, 0.86) * math.pi)

    joints = (0.5 * math.pi - 1.05 + 0.25 * rng.normal(), 2.1 + 0.15 * rng.normal())
    joints = (joints[0], min(max(joints[1], 1.7), 2.4))
    while True:
        block, red, blue = place(0.2, 0.24), place(0.17, 0.37), place(0.17, 0.37)
        goal = _polar(
            math.hypot(*block) + rng.uniform(0.09, 0.12),
            math.atan2(block[1], block[0]) + rng.uniform(-0.3, 0.3),
        )
        objects = (block, red, blue, goal)
        apart = (math.dist(a, b) for i, a in enumerate(objects) for b in objects[:i])
        if min(apart) > 0.085:
            return Scene(joints, block=block, red=red, blue=blue, goal=goal)


def _minimum_jerk(progress: float) -> float:
    """Return how far a smooth movement has come, from rest at 0 to rest at 1."""
    t = min(max(progress, 0.0), 1.0)
    return t * t * t * (10 + t * (6 * t - 15))


def _between(start: Point, stop: Point, part: float) -> Point:
    return (start[0] + part * (stop[0] - start[0]), start[1] + part * (stop[1] - start[1]))


def _polar(radius: float, angle: float) -> Point:
    return (radius * math.cos(angle), radius * math.sin(angle))
