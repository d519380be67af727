"""Train a small behaviour-cloning policy: images and state in, the next actions out.

Run it with ``python examples/train_bc.py DATASET``; without one, a dataset of a simulated arm is
made first. Stop it at any time, and run it again with the same ``--checkpoint``: it goes on behind
the last checkpoint, with the very next batch, and ends with the very same weights.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import roboreel as reel
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.torch import Loader, Normalize, SampleDataset, Unnormalize

HORIZON = 16
IMAGE_SIZE = (96, 96)


class Policy(nn.Module):
    """An encoder for each camera and an MLP over what they see and the state: an action chunk."""

    def __init__(self, dataset: reel.Dataset, width: int = 128) -> None:
        super().__init__()
        self.cameras = dataset.cameras
        state_size = dataset.features["observation.state"].shape[0]
        self.action_size = dataset.features["action"].shape[0]
        modes: dict[str, Any] = {"observation.state": "mean_std", "action": "mean_std"}
        self.normalize = Normalize(dataset.stats, modes)
        self.unnormalize = Unnormalize(dataset.stats, {"action": "mean_std"})
        self.encoders = nn.ModuleList(_encoder(width) for _ in self.cameras)
        self.head = nn.Sequential(
            nn.Linear(len(self.cameras) * width + state_size, 2 * width),
            nn.ReLU(),
            nn.Linear(2 * width, HORIZON * self.action_size),
        )

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return normalized actions, ``(B, HORIZON, A)``, for a normalized batch."""
        seen = [
            encoder(batch[camera].float() / 255 - 0.5)
            for camera, encoder in zip(self.cameras, self.encoders, strict=True)
        ]
        chunk = self.head(torch.cat([*seen, batch["observation.state"]], dim=1))
        return chunk.reshape(-1, HORIZON, self.action_size)

    def loss(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return the mean squared error over the actions that lie inside the episode."""
        batch = self.normalize(batch)
        error = (self(batch) - batch["action"]).square().mean(dim=2)
        inside = ~batch["action_is_pad"]
        return (error * inside).sum() / inside.sum()

    @torch.no_grad()
    def act(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return the actions to take, ``(B, HORIZON, A)``, on the robot's own scale."""
        chunk: torch.Tensor = self.unnormalize({"action": self(self.normalize(batch))})["action"]
        return chunk


def _encoder(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=4),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(32 * 16, width),
    )


@dataclass
class Run:
    """All that a checkpoint holds, and so all that decides what comes next."""

    policy: Policy
    optimizer: torch.optim.Optimizer
    loader: Loader
    step: int = 0

    def save(self, path: Path) -> None:
        """Write a checkpoint; an older one stays until the new one is whole."""
        temporary = path.with_suffix(".part")
        state = {
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loader": self.loader.state_dict(),
            "step": self.step,
        }
        torch.save(state, temporary)
        temporary.replace(path)

    def load(self, path: Path) -> None:
        """Go back to where a checkpoint was written."""
        state = torch.load(path, weights_only=True)
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["loader"])
        self.step = state["step"]


def prepare(dataset: reel.Dataset, *, batch_size: int = 32, seed: int = 0) -> Run:
    """Return a run at its beginning."""
    torch.manual_seed(seed)
    policy = Policy(dataset)
    samples = SampleDataset(
        dataset,
        {"action": reel.Window(frames=range(HORIZON))},
        features=["observation.state", *dataset.cameras],
        image_size=IMAGE_SIZE,
    )
    loader = Loader(samples, batch_size, shuffle="local", seed=seed)
    return Run(policy, torch.optim.AdamW(policy.parameters(), lr=1e-3), loader)


def train(run: Run, steps: int, checkpoint: Path | None = None, every: int = 100) -> list[float]:
    """Train until so many steps are done in all; return the losses of the steps done now."""
    losses: list[float] = []
    started = time.perf_counter()
    while run.step < steps:
        for batch in run.loader:
            loss = run.policy.loss(batch)
            run.optimizer.zero_grad()
            loss.backward()
            run.optimizer.step()
            run.step += 1
            losses.append(loss.item())
            if run.step % 20 == 0:
                rate = len(losses) * len(batch["action"]) / (time.perf_counter() - started)
                print(f"step {run.step:5d}  loss {loss.item():.4f}  {rate:,.0f} samples/s")
            if checkpoint is not None and (run.step % every == 0 or run.step == steps):
                run.save(checkpoint)
            if run.step == steps:
                break
    return losses


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", nargs="?", type=Path, help="a dataset's folder")
    parser.add_argument("--episodes", type=int, default=10, help="of the arm, if none is given")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="written now and then, and gone on from")
    options = parser.parse_args()
    path = options.dataset or Path("demo") / "arm"
    if options.dataset is None and not path.exists():
        print(f"Making a dataset of a simulated arm in {path}")
        make_demo_dataset(path, DemoSpec(episodes=options.episodes, frames=100))
    run = prepare(reel.open_dataset(path), batch_size=options.batch_size, seed=options.seed)
    if options.checkpoint is not None and options.checkpoint.exists():
        run.load(options.checkpoint)
        print(f"Going on after step {run.step}")
    losses = train(run, options.steps, options.checkpoint)
    if losses:
        print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at last")


if __name__ == "__main__":
    main()
