"""The arm's table at one moment: lengths in metres, angles in radians, the shoulder at (0, 0)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

__all__ = [
    "BLOCK_CONTACT_M",
    "BLOCK_HALF_M",
    "HAND_RADIUS_M",
    "JOINT_LIMITS",
    "LINKS_M",
    "Point",
    "Scene",
    "forward_kinematics",
    "inverse_kinematics",
]

Point = tuple[float, float]

LINKS_M = (0.21, 0.19)
JOINT_LIMITS = ((-1.2, 3.6), (0.05, 2.7))
HAND_RADIUS_M = 0.014
BLOCK_HALF_M = 0.02
BLOCK_CONTACT_M = HAND_RADIUS_M + BLOCK_HALF_M
"""Distance of the hand from the middle of the block when they touch."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where everything is: the joints, a block, its goal and two targets."""

    joints: Point
    """Angle from the x axis to the upper arm, and from the upper arm to the forearm."""
    block: Point
    red: Point
    blue: Point
    goal: Point

    @property
    def push_direction(self) -> Point:
        """The direction from the block to its goal, as a vector of length 1."""
        distance = math.dist(self.block, self.goal)
        if distance == 0:
            return (0.0, 1.0)
        return (
            (self.goal[0] - self.block[0]) / distance,
            (self.goal[1] - self.block[1]) / distance,
        )

    def with_joints(self, joints: Point) -> Scene:
        """Return the scene after the arm has moved, with the block if the hand pushes it.

        The block slides towards its goal, as if in a groove: a hand from behind pushes it, a hand
        from any other side passes above it.
        """
        _, hand = forward_kinematics(joints)
        east, north = self.push_direction
        ahead = (self.block[0] - hand[0]) * east + (self.block[1] - hand[1]) * north
        aside = (self.block[0] - hand[0]) * north - (self.block[1] - hand[1]) * east
        gap = ahead - BLOCK_CONTACT_M
        if abs(aside) > BLOCK_HALF_M / 2 or not -BLOCK_CONTACT_M / 2 < gap < 0:
            return replace(self, joints=joints)
        left = math.dist(self.block, self.goal)
        slid = min(-gap, left)
        block = (self.block[0] + slid * east, self.block[1] + slid * north)
        return replace(self, joints=joints, block=block)


def forward_kinematics(joints: Point) -> tuple[Point, Point]:
    """Return where the elbow and the hand are."""
    shoulder, elbow = joints
    upper, fore = LINKS_M
    bend = (upper * math.cos(shoulder), upper * math.sin(shoulder))
    hand = (
        bend[0] + fore * math.cos(shoulder + elbow),
        bend[1] + fore * math.sin(shoulder + elbow),
    )
    return bend, hand


def inverse_kinematics(hand: Point) -> Point:
    """Return the joints that bring the hand to a point, or as close as the limits allow."""
    upper, fore = LINKS_M
    squared = hand[0] ** 2 + hand[1] ** 2
    cosine = (squared - upper**2 - fore**2) / (2 * upper * fore)
    elbow = math.acos(min(max(cosine, -1.0), 1.0))
    inner = math.atan2(fore * math.sin(elbow), upper + fore * math.cos(elbow))
    joints = (math.atan2(hand[1], hand[0]) - inner, elbow)
    limited = [min(max(j, low), high) for j, (low, high) in zip(joints, JOINT_LIMITS, strict=True)]
    return (limited[0], limited[1])
