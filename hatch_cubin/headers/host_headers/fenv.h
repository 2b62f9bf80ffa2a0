#pragma once
// Stands in for the host's <fenv.h>: device code names its rounding in each call, the header may be included out of
// habit.
