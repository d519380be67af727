"""Views as `datasets.Dataset`, downloads, uploads. Importing this is opting in to the ``hf`` extra."""

try:
    import datasets  # noqa: F401
    import huggingface_hub  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "roboreel.huggingface needs datasets and huggingface_hub. "
        "Install them with: pip install 'roboreel[hf]'",
        name=error.name,
    ) from error

from roboreel.huggingface.arrow import arrow_bytes, to_hf_features
from roboreel.huggingface.convert import to_datasets, to_iterable
from roboreel.huggingface.download import download, files_of_episodes
from roboreel.huggingface.upload import push

__all__ = [
    "arrow_bytes",
    "download",
    "files_of_episodes",
    "push",
    "to_datasets",
    "to_hf_features",
    "to_iterable",
]
