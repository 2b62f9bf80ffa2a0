"""A source that includes and uses headers of the host, as much code for devices does."""

FROM_HABIT = r"""
#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <cinttypes>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <float.h>
#include <functional>
#include <initializer_list>
#include <limits.h>
#include <limits>
#include <math.h>
#include <new>
#include <numeric>
#include <optional>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>
#include <type_traits>
#include <utility>

static_assert(CUDA_VERSION == __CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10, "");
static_assert(std::is_same<std::int64_t, int64_t>::value && sizeof(std::uint8_t) == 1, "");
static_assert(INT_MAX == std::numeric_limits<int>::max() && CHAR_BIT == 8 && UINT32_MAX == UINT_MAX, "");
static_assert(FLT_MAX == std::numeric_limits<float>::max() && DBL_EPSILON < FLT_EPSILON, "");
constexpr float infinity = INFINITY;
static_assert(infinity > FLT_MAX && HUGE_VAL == infinity, "");
__constant__ float table[] = {INFINITY, -INFINITY, NAN, HUGE_VALF, static_cast<float>(M_PI)};

struct Pair { int first; float second; };

template <class T>
using Wider = std::conditional_t<std::is_same<T, float>::value, double, T>;

template <class T, std::size_t N>
__device__ T total(std::array<T, N> values) {
  return std::accumulate(values.begin(), values.end(), T());
}

__host__ __device__ inline double both(int x) { return std::sqrt(x) + std::pow(x, 0.5f); }

extern "C" __global__ void usual(float *x, std::uint32_t n, uint8_t *bytes, const CUtensorMap *map) {
  assert(n > 0);
  bool good = x != NULL && std::isfinite(x[0]) && !isnan(x[1]);
  std::pair<int, float> pair = std::make_pair(1, x[1]);
  auto [left, right] = std::make_tuple(2, x[2]);
  std::swap(x[0], x[1]);
  x[3] = std::move(pair.second) + left + right + std::get<0>(pair) + table[n];
  x[4] = std::max(x[0], x[1]) + std::min<float>(x[2], 1) + std::abs(x[3]) + std::abs(static_cast<int>(n));
  std::memcpy(bytes, x, sizeof(float));
  memset(bytes + 4, 0, 4);
  std::optional<int> maybe = 3;
  x[5] = std::plus<float>{}(*maybe, total(std::array<float, 2>{{1, 2}}));
  x[2] = std::numeric_limits<float>::infinity();
  x[6] = static_cast<Wider<float>>(x[5]) * M_PI + both(n) + sqrtf(x[4]) + fmaxf(x[0], x[1]);
  using namespace std;
  x[7] = pow(x[1], 2.f) + max(x[1], x[2]) + sqrt(x[3]) + exp(static_cast<double>(x[4]));
  std::printf("%" PRIu64 " %" PRId32 "\n", static_cast<uint64_t>(n), static_cast<int32_t>(good));
  ptrdiff_t apart = reinterpret_cast<const char *>(map) - reinterpret_cast<const char *>(x);
  x[8] = static_cast<float>(apart + offsetof(Pair, second));
}
"""
