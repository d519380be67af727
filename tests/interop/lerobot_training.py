"""A few steps of LeRobot's training, on its own dataset or on the drop-in; runs beside LeRobot.

``python -m tests.interop.lerobot_training lerobot|roboreel act|diffusion ROOT`` prints the losses as JSON.
"""

import json
import sys
from typing import Any

import torch

STEPS, BATCH = 20, 2
SMALL: dict[str, dict[str, Any]] = {
    "act": {
        "chunk_size": 8, "n_action_steps": 8, "dim_model": 32, "n_heads": 2, "dim_feedforward": 32,
        "n_encoder_layers": 1, "n_vae_encoder_layers": 1, "pretrained_backbone_weights": None,
        "optimizer_lr": 1e-3,
    },
    "diffusion": {
        "horizon": 8, "n_action_steps": 4, "down_dims": (32, 64), "spatial_softmax_num_keypoints": 8,
        "pretrained_backbone_weights": None,
        "optimizer_lr": 1e-3,
    },
}  # fmt: skip
"""Settings that keep the policies small."""


def main(whose: str, kind: str, root: str) -> None:
    """Train with the dataset classes of one of the two."""
    from benchmarks.peers.lerobot import declare_missing_operator

    declare_missing_operator()
    if whose == "lerobot":
        from lerobot.datasets.lerobot_dataset import LeRobotDataset, LeRobotDatasetMetadata
    else:
        from roboreel.lerobot import LeRobotDataset, LeRobotDatasetMetadata
    print(json.dumps(train(LeRobotDataset, LeRobotDatasetMetadata, kind, root)))


def train(dataset_class: Any, metadata_class: Any, kind: str, root: str) -> list[float]:
    """Return the loss of each step, as LeRobot's training script takes them."""
    from lerobot.datasets.factory import resolve_delta_timestamps
    from lerobot.policies.factory import make_policy, make_policy_config, make_pre_post_processors

    config = make_policy_config(kind, device="cpu", push_to_hub=False, **SMALL[kind])
    meta = metadata_class("some/arm", root=root)
    deltas = resolve_delta_timestamps(config, meta)
    dataset = dataset_class("some/arm", root=root, delta_timestamps=deltas)
    torch.manual_seed(7)
    policy = make_policy(config, ds_meta=dataset.meta)
    prepare, _ = make_pre_post_processors(config, dataset_stats=dataset.meta.stats)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    order = torch.Generator().manual_seed(7)
    loader = torch.utils.data.DataLoader(dataset, BATCH, shuffle=True, generator=order)
    policy.train()
    losses: list[float] = []
    while len(losses) < STEPS:
        for batch in loader:
            loss, _ = policy.forward(prepare(batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == STEPS:
                break
    return losses


if __name__ == "__main__":
    main(*sys.argv[1:4])
