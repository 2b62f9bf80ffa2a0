"""Remote stores, in which many machines share compiled results, in addition to the local cache folder."""
