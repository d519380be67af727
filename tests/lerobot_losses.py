"""Losses of LeRobot's policies on its own batches and on given ones. Runs in a peers' environment.

``python -m tests.lerobot_losses act|diffusion ROOT BATCHES.npz DELTAS.json``: the batches are items
of the drop-in, ``<step>/<name>``; LeRobot reads the same rows itself. Prints both lists of losses.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

FRONT, ACTION, STATE = "observation.images.front", "action", "observation.state"


def main(kind: str, root: str, batches: str, deltas: str) -> None:
    """Train a policy twice."""
    from benchmarks.peers.lerobot import declare_missing_operator

    declare_missing_operator()
    import torch
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    torch.set_num_threads(1)
    told = json.loads(Path(deltas).read_text())
    dataset = LeRobotDataset("interop/test", root=root, delta_timestamps=told["deltas"])
    theirs = [
        torch.utils.data.default_collate([dataset[row] for row in rows]) for rows in told["rows"]
    ]
    with np.load(batches) as stored:
        ours = [
            {name: torch.from_numpy(stored[f"{step}/{name}"]) for name in told["names"]}
            for step in range(len(theirs))
        ]
    kept = [{name: batch[name] for name in told["names"]} for batch in theirs]
    print(json.dumps([losses(kind, kept), losses(kind, ours)]))


def losses(kind: str, batches: list[dict[str, Any]]) -> list[float]:
    """Return the loss of every step of a policy that starts from the same weights."""
    import torch

    torch.manual_seed(0)
    policy = make_policy(kind, batches[0])
    policy.train()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4)
    found = []
    for batch in batches:
        loss, _ = policy.forward(dict(batch))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def make_policy(kind: str, batch: dict[str, Any]) -> Any:
    """Return a small policy for the shapes of a batch."""
    from lerobot.configs.types import FeatureType, PolicyFeature

    camera = tuple(batch[FRONT].shape[-3:])
    features = {
        STATE: PolicyFeature(FeatureType.STATE, (batch[STATE].shape[-1],)),
        FRONT: PolicyFeature(FeatureType.VISUAL, camera),
    }
    common: dict[str, Any] = {
        "input_features": features,
        "output_features": {ACTION: PolicyFeature(FeatureType.ACTION, (batch[ACTION].shape[-1],))},
        "pretrained_backbone_weights": None,
        "device": "cpu",
    }
    steps = batch[ACTION].shape[1]
    small: dict[str, Any]
    if kind == "act":
        from lerobot.policies.act.configuration_act import ACTConfig
        from lerobot.policies.act.modeling_act import ACTPolicy

        small = {"dim_model": 32, "n_heads": 2, "dim_feedforward": 64, "n_encoder_layers": 1}
        return ACTPolicy(ACTConfig(**common, chunk_size=steps, n_action_steps=steps, **small))
    from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
    from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy

    small = {"down_dims": (16, 32, 64), "spatial_softmax_num_keypoints": 8, "crop_shape": None}
    config = DiffusionConfig(
        **common, n_obs_steps=2, horizon=steps, n_action_steps=4, drop_n_last_frames=0, **small
    )
    return DiffusionPolicy(config)


if __name__ == "__main__":
    main(*sys.argv[1:5])
