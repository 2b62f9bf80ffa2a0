#pragma once
// Stands in for the host's <stdint.h>: libcu++ has the same for device code.
#include <cuda/std/cstdint>
