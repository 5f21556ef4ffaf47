"""`tensorstore` specifications of stored arrays, made from paths. Nothing here needs the tensorstore package."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

_REMOTE_DRIVERS = ("gcs", "gcs_grpc", "s3", "http")
_URL = re.compile(r"(gs|s3|http|https)://([^/]*)/?(.*)")


def get_tensorstore_spec(ckpt_path: str | os.PathLike[str], *, ocdbt: bool = False, process_idx: int | None = None,
                         arr: Any = None, driver: str = "zarr") -> dict[str, Any]:
    """Return the specification of an array stored in a directory or in a bucket (`gs://bucket/path`, `s3://bucket/path`).

    Args:
        ckpt_path: Path of the array.
        ocdbt: If True, store all arrays of the directory in one tensorstore database, in which the last component of the path
            names the array.
        process_idx: Index of this process if several processes write: each writes to a database of its own.
        arr: Array whose shape, chunks and dtype are added to the specification.
        driver: Format, "zarr" or "zarr3".

    Returns:
        The specification, a dictionary.

    Example:
        >>> serialization.get_tensorstore_spec("/tmp/state/w")
        {'driver': 'zarr', 'kvstore': {'driver': 'file', 'path': '/tmp/state/w'}}
    """
    path = os.path.normpath(os.fspath(ckpt_path)) if "://" not in os.fspath(ckpt_path) else os.fspath(ckpt_path).rstrip("/")
    if ocdbt:
        directory, name = os.path.split(path)
        if "://" in path and path.count("/") < 4:
            raise ValueError(f"get_tensorstore_spec with ocdbt takes a path with a bucket, a directory and the name of the "
                             f"array, got {path!r}.")
        if "://" not in path and not os.path.isabs(directory):
            raise ValueError(f"get_tensorstore_spec with ocdbt takes an absolute path, got {path!r}: write "
                             f"os.path.abspath(path).")
        if process_idx is not None:
            directory = os.path.join(directory, f"process_{process_idx}")
        store: dict[str, Any] = {"driver": "ocdbt", "base": _store(directory), "path": name}
    else:
        store = _store(path)
    spec = {"driver": driver, "kvstore": store}
    if arr is not None:
        spec["metadata"] = metadata_of(arr, driver)
        if driver == "zarr3":
            spec["metadata"]["data_type"] = np.dtype(arr.dtype).name
    return spec


def _store(path: str) -> dict[str, Any]:
    url = _URL.fullmatch(path)
    if url is None:
        return {"driver": "file", "path": path}
    scheme, bucket, inside = url.groups()
    if scheme.startswith("http"):
        return {"driver": "http", "base_url": f"{scheme}://{bucket}", "path": inside}
    return {"driver": {"gs": "gcs", "s3": "s3"}[scheme], "bucket": bucket, "path": inside}


def metadata_of(x: Any, driver: str) -> dict[str, Any]:
    """Return the storage metadata of an array: its shape, and chunks of the size of one shard."""
    chunk = [max(1, n) for n in x.sharding.shard_shape(x.shape)]
    if driver == "zarr3":
        return {"codecs": [{"name": "zstd"}], "shape": x.shape,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}}}
    return {"compressor": {"id": "zstd"}, "shape": x.shape, "chunks": chunk}


def is_remote_storage(tspec: dict[str, Any] | str) -> bool:
    """Return True if a specification or a path is on remote storage.

    Args:
        tspec: Result of `get_tensorstore_spec`, a part of it, or a path.

    Returns:
        True for buckets and HTTP, False for local files.

    Example:
        >>> serialization.is_remote_storage("gs://bucket/state"), serialization.is_remote_storage("/tmp/state")
        (True, False)
    """
    if isinstance(tspec, str):
        return _URL.match(tspec) is not None
    if tspec.get("driver") in _REMOTE_DRIVERS:
        return True
    return any(is_remote_storage(tspec[key]) for key in ("kvstore", "base") if key in tspec)
