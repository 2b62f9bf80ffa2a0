#pragma once
// Stands in for the driver's <cuda.h>: what device code takes of it, without the host's functions.
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUsurfObject;
typedef unsigned long long CUtexObject;
#if __CUDACC_VER_MAJOR__ >= 13
typedef struct alignas(128) CUtensorMap_st {
#else
typedef struct alignas(64) CUtensorMap_st {
#endif
  unsigned long long opaque[16];
} CUtensorMap;
