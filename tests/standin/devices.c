/* The start, devices and contexts. */

#include "standin.h"

static struct context primaries[MOST_GPUS];

int cuInit(unsigned flags) {
  int capabilities[MOST_GPUS];
  BEGIN
  if (started && started != getpid()) return NOT_INITIALIZED; /* after a fork */
  if (!gpus(capabilities)) return NO_DEVICE;
  started = getpid();
  return OK;
}
int cuDriverGetVersion(int *answer) { BEGIN *answer = version(); return OK; }
int cuGetErrorName(int status, const char **name) {
  *name = status == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : 0;
  *name = status == CAPTURING ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" : *name;
  return *name ? OK : INVALID_VALUE;
}
int cuGetErrorString(int status, const char **text) { *text = "an error of the stand-in"; return OK; }
int cuDeviceGetCount(int *count) { int all[MOST_GPUS]; WORKING *count = gpus(all); return OK; }
int cuDeviceGet(int *device, int ordinal) {
  int a, b;
  WORKING
  *device = ordinal;
  return capability(ordinal, &a, &b);
}
int cuDeviceGetName(char *name, int length, int device) {
  WORKING
  snprintf(name, length, "stand-in %d", device);
  return OK;
}
int cuDeviceGetUuid_v2(char *uuid, int device) { WORKING memset(uuid, device, 16); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { WORKING *bytes = 1 << 30; return OK; }
int cuDeviceGetAttribute(int *answer, int attribute, int device) {
  int major, minor;
  WORKING
  int status = capability(device, &major, &minor);
  *answer = attribute == 1 ? 1024 : attribute == 10 ? 32 : 1; /* threads of a block, of a warp */
  *answer = attribute == 75 ? major : attribute == 76 ? minor : *answer;
  return status;
}
int cuDevicePrimaryCtxRetain(struct context **context, int device) {
  int a, b;
  WORKING
  if (capability(device, &a, &b)) return INVALID_DEVICE;
  primaries[device].device = device;
  *context = &primaries[device];
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) { WORKING return OK; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  WORKING
  *flags = 0, *active = 1;
  return OK;
}
int cuDevicePrimaryCtxReset_v2(int device) { WORKING primaries[device].life++; return OK; }
int cuCtxCreate_v4(struct context **context, void *parameters, unsigned flags, int device) {
  WORKING
  if (depth == DEEPEST) return INVALID_VALUE;
  *context = stack[depth++] = calloc(1, sizeof **context);
  (*context)->device = device;
  return OK;
}
int cuCtxGetCurrent(struct context **context) { WORKING *context = current(); return OK; }
int cuCtxGetDevice(int *device) { WITH_CONTEXT *device = current()->device; return OK; }
int cuCtxSetCurrent(struct context *context) {
  WORKING
  depth -= depth > 0;
  if (context) stack[depth++] = context;
  return OK;
}
int cuCtxPushCurrent_v2(struct context *context) {
  WORKING
  if (depth == DEEPEST) return INVALID_VALUE;
  stack[depth++] = context;
  return OK;
}
int cuCtxPopCurrent_v2(struct context **context) { WITH_CONTEXT *context = stack[--depth]; return OK; }
int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  WITH_CONTEXT
  *least = *greatest = 0;
  return OK;
}
int cuCtxSynchronize(void) { WITH_CONTEXT return OK; }
