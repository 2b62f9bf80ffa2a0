#pragma once
// Stands in for the host's <time.h>: libcu++ has the same for device code.
#include <cuda/std/ctime>
