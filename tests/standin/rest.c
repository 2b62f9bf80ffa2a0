/* What callers need in order to go on: streams, graphs and memory that do nothing, names of calls, NVML. */

#include "standin.h"
#include <dlfcn.h>

int cuStreamCreateWithPriority(struct stream **stream, unsigned flags, int priority) {
  WITH_CONTEXT
  *stream = calloc(1, sizeof **stream);
  return OK;
}
int cuStreamCreate(struct stream **stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}
int cuStreamDestroy_v2(struct stream *stream) { WORKING return OK; }
int cuStreamSynchronize(struct stream *stream) { WORKING return OK; }
int cuStreamGetCtx_v2(struct stream *stream, struct context **context, void **green) {
  WITH_CONTEXT
  *context = current(), *green = 0;
  return OK;
}
int cuStreamGetCtx(struct stream *stream, struct context **context) {
  WITH_CONTEXT
  *context = current();
  return OK;
}
int cuStreamWaitEvent(struct stream *stream, void *event, unsigned flags) { WORKING return OK; }
int cuStreamBeginCapture_v2(struct stream *stream, int mode) {
  WORKING
  stream->capturing = 1, captures++;
  return OK;
}
int cuStreamEndCapture(struct stream *stream, void **graph) {
  WORKING
  stream->capturing = 0, captures--;
  *graph = calloc(1, 8);
  return OK;
}
int cuStreamIsCapturing(struct stream *stream, int *status) {
  WORKING
  *status = (uintptr_t)stream > 4 && stream->capturing;
  return OK;
}
int cuStreamGetCaptureInfo_v3(struct stream *stream, int *status, uint64_t *id, void **graph, void **nodes,
    void **edges, size_t *count) {
  static void *empty[1];
  WORKING
  *status = (uintptr_t)stream > 4 && stream->capturing;
  if (id) *id = (uintptr_t)stream;
  if (graph) *graph = empty;
  if (nodes) *nodes = empty;
  if (edges) *edges = 0;
  if (count) *count = 0;
  return OK;
}
int cuGraphInstantiateWithParams(void **executable, void *graph, void *parameters) {
  WORKING
  *executable = calloc(1, 8);
  return OK;
}
int cuUserObjectCreate(void **object, void *pointer, void (*destroy)(void *), unsigned count,
    unsigned flags) {
  WORKING
  *object = pointer;
  return OK;
}
int cuUserObjectRelease(void *object, unsigned count) { WORKING return OK; }
int cuGraphRetainUserObject(void *graph, void *object, unsigned count, unsigned flags) {
  WORKING
  return OK;
}
int cuGraphReleaseUserObject(void *graph, void *object, unsigned count) { WORKING return OK; }
int cuGraphLaunch(void *executable, struct stream *stream) {
  WITH_CONTEXT
  note("GRAPH", current()->device, "");
  return OK;
}
int cuGraphExecDestroy(void *executable) { WORKING return OK; }
int cuGraphDestroy(void *graph) { WORKING return OK; }
int cuEventCreate(void **event, unsigned flags) { WITH_CONTEXT *event = calloc(1, 8); return OK; }
int cuEventRecord(void *event, struct stream *stream) { WORKING return OK; }
int cuEventSynchronize(void *event) { WORKING return OK; }
int cuEventQuery(void *event) { WORKING return OK; }
int cuEventDestroy_v2(void *event) { WORKING return OK; }
int cuMemGetInfo_v2(size_t *left, size_t *total) { WITH_CONTEXT *left = *total = 1 << 30; return OK; }
int cuMemAlloc_v2(void **memory, size_t bytes) { WITH_CONTEXT *memory = malloc(bytes); return OK; }
int cuMemFree_v2(void *memory) { WORKING free(memory); return OK; }
int cuMemAllocHost_v2(void **memory, size_t bytes) { WITH_CONTEXT *memory = malloc(bytes); return OK; }
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  WITH_CONTEXT
  *memory = malloc(bytes);
  return OK;
}
int cuMemFreeHost(void *memory) { WORKING free(memory); return OK; }
int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes) {
  WORKING
  memcpy(to, from, bytes);
  return OK;
}
int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes) {
  WORKING
  memcpy(to, from, bytes);
  return OK;
}
/* Says of any pointer what callers ask about: it is the host's, and the first device's as well. */
int cuPointerGetAttributes(unsigned count, int *attributes, void **answers, void *pointer) {
  WORKING
  for (unsigned i = 0; i < count; i++) {
    if (attributes[i] == 3 || attributes[i] == 4) *(void **)answers[i] = pointer;
    else *(int *)answers[i] = attributes[i] == 2; /* 2 asks for the kind of memory, which is the host's */
  }
  return OK;
}

/* --- how bindings find the calls --- */

int cuGetProcAddress_v2(const char *name, void **call, int asked, uint64_t flags, int *why) {
  static const char *versions[] = {"", "_v2", "_v3", "_v4"};
  static void *self;
  Dl_info info;
  char full[200];
  if (!self && dladdr((void *)cuStreamCreate, &info)) self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  *call = 0;
  for (int i = 0; i < 4 && !*call; i++) {
    snprintf(full, sizeof full, "%s%s", name, versions[i]);
    *call = dlsym(self, full);
  }
  if (why) *why = *call ? 0 : 1;
  return *call ? OK : NOT_FOUND;
}
int cuGetProcAddress(const char *name, void **call, int asked, uint64_t flags) {
  return cuGetProcAddress_v2(name, call, asked, flags, 0);
}

/* Its tables are documented nowhere. NVRTC goes on without them, CUDA's runtime does not. */
int cuGetExportTable(const void **table, const void *which) { BEGIN *table = 0; return NOT_FOUND; }

/* --- NVML --- */

int nvmlInit_v2(void) { BEGIN return OK; }
int nvmlShutdown(void) { BEGIN return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { int all[MOST_GPUS]; BEGIN *count = gpus(all); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  int a, b;
  BEGIN
  *device = (void *)(uintptr_t)index;
  return capability(index, &a, &b) ? 2 : OK;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
  BEGIN
  snprintf(uuid, length, "GPU-%02x", (unsigned)(uintptr_t)device);
  return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
  BEGIN
  return capability((uintptr_t)device, major, minor) ? 2 : OK;
}
int nvmlSystemGetCudaDriverVersion_v2(int *answer) { BEGIN *answer = version(); return OK; }
