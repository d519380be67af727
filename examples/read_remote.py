"""Read a remote dataset: ``python examples/read_remote.py s3://bucket/arm``.

Needs the extra: ``pip install 'roboreel[remote]'``. Credentials come from the environment.
"""

import sys

import roboreel as reel
from roboreel.loading import Loader


def main(address: str) -> None:
    """Open a dataset, read one epoch, and say what was fetched."""
    dataset = reel.open_dataset(address, mirror_limit="20GB")
    print(dataset)
    for batch in Loader(dataset, batch_size=32, shuffle=True):
        print(len(batch["index"]), "samples")
    print(dataset.memory)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data/arm")
