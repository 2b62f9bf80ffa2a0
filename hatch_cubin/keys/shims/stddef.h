#pragma once
// Stands in for the host's <stddef.h>: libcu++ has the same for device code.
#include <cuda/std/cstddef>
