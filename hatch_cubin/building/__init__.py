"""The whole build, its report, and the part of a plan that one job of CI compiles."""
