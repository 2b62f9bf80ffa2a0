#pragma once
// Stands in for the host's <string.h>: what device code can call of it is built into NVRTC.
#if __has_include(<cuda/std/cstring>)
extern "C++" {  // where it is included inside extern "C" too
#include <cuda/std/cstring>
}
#endif
