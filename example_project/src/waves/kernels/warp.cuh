#pragma once

// The sum of a value over the 32 lanes of a warp, valid in lane 0.
template <typename Value>
__device__ Value warp_sum(Value value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, distance);
  }
  return value;
}
