// out = a * x + y
extern "C" __global__ void saxpy(float a, const float *x, const float *y, float *out,
                                 unsigned long long count) {
  unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
  if (i < count) {
    out[i] = a * x[i] + y[i];
  }
}
