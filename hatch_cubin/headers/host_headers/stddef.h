#pragma once
// Stands in for the host's <stddef.h>: libcu++ has the same for device code.
extern "C++" {  // where it is included inside extern "C" too
#include <cuda/std/cstddef>
}
