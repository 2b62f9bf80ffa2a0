"""The answers of `hatch-cubin explain`: why units miss the cache, why archs are built, what a GPU loads."""
