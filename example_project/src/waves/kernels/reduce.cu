#include "warp.cuh"

// out[b] = the sum of the b-th block's part of x
template <typename Value, int Block>
__global__ void block_sum(const Value *x, Value *out, unsigned long long count) {
  __shared__ Value partial[Block / 32];
  unsigned long long i = blockIdx.x * (unsigned long long)Block + threadIdx.x;
  Value sum = warp_sum(i < count ? x[i] : Value(0));
  if (threadIdx.x % 32 == 0) {
    partial[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    Value total = 0;
    for (Value each : partial) {
      total += each;
    }
    out[blockIdx.x] = total;
  }
}
