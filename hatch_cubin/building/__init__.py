"""The whole build, its report, and the shards that let several CI jobs compile one plan."""
