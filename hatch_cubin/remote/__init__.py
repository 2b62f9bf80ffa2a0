"""Remote caches: stores of compiled results that many machines share."""
