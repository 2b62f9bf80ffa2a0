#pragma once
// Stands in for the host's <limits.h>: libcu++ has the same for device code.
#include <cuda/std/climits>
