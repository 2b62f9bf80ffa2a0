"""What `replace` does in each kind of bucket."""

from __future__ import annotations

from hatch_cubin.remote.buckets import BucketStore


def check_replace(store: BucketStore) -> None:
    """Check that `replace` writes only over the content that its tag is from; "ac/i" then has "two"."""
    assert store.read("ac/i", 9) == (None, None)
    assert store.replace("ac/i", b"one", None)
    assert not store.replace("ac/i", b"other", None)
    data, tag = store.read("ac/i", 9)
    assert data == b"one"
    assert store.replace("ac/i", b"two", tag)
    assert not store.replace("ac/i", b"other", tag)
