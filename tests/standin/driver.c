/* A CUDA driver and an NVML for tests, whose devices are words in the environment.

   STANDIN_GPUS    capabilities, by ordinal: "9.0 8.6"; "" is a machine without a device; unset, one of 9.0
   STANDIN_DRIVER  the driver's version as cuDriverGetVersion counts it; unset, 13000
   STANDIN_FAULTS  "call=what" for calls that go wrong: a status, or hang (until somebody writes to the pipe
                   of the name "pipe" here), crash, forget (success, and nothing was done)
   STANDIN_LOG     the file that gets a line for every call, and for everything that is loaded

   It holds what is passed to it, and runs nothing. It is lazy as CUDA's driver is by its documentation: a
   library is loaded into a context when a function of it is asked for there, a function when it is told to or
   launched. Nothing can be loaded while a stream is captured. What a real device does it does not tell. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  OK = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500, CAPTURING = 900, DO = -1,
};
enum { MOST_GPUS = 16, DEEPEST = 64 };

struct context { int device, life; };
struct library { int number; char *code; struct library *next; };
struct kernel { int is_function; struct library *library; char *name; struct kernel *next; };
struct function { int is_function; struct kernel *kernel; struct context *context; int life, loaded; struct function *next; };
struct stream { int capturing; struct context *context; };

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pid_t started;
static int libraries, captures;
static struct context primaries[MOST_GPUS];
static struct kernel *kernels;
static struct function *functions;
static __thread struct context *stack[DEEPEST];
static __thread int depth;

/* --- what was asked, and what is to go wrong --- */

static void note(const char *what, int device, const char *detail) {
  const char *path = getenv("STANDIN_LOG");
  if (!path) return;
  char *line;
  int length = asprintf(&line, "%d %ld %s %d %s\n", getpid(), syscall(SYS_gettid), what, device, detail);
  int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (write(file, line, length) != length) abort(); /* one write: lines of processes do not mix */
  close(file);
  free(line);
}

static struct context *current(void) { return depth ? stack[depth - 1] : 0; }

/* Notes a call and returns what is to be answered instead; DO where nothing is. */
static int begin(const char *call) {
  note(call, current() ? current()->device : -1, "");
  const char *faults = getenv("STANDIN_FAULTS");
  size_t length = strlen(call);
  for (const char *at = faults; at && (at = strstr(at, call)); at += length) {
    if ((at != faults && at[-1] != ' ') || at[length] != '=') continue;
    const char *what = at + length + 1;
    if (!strncmp(what, "crash", 5)) raise(11);
    if (!strncmp(what, "forget", 6)) return OK;
    if (strncmp(what, "hang", 4)) return atoi(what);
    close(open("pipe", O_RDONLY));
  }
  return DO;
}

static int working(const char *call) {
  int instead = begin(call);
  return instead == DO && started != getpid() ? NOT_INITIALIZED : instead;
}

#define BEGIN { int instead = begin(__func__); if (instead != DO) return instead; }
#define WORKING { int instead = working(__func__); if (instead != DO) return instead; }
#define WITH_CONTEXT WORKING if (!current()) return INVALID_CONTEXT;

static int gpus(int capabilities[MOST_GPUS]) {
  const char *text = getenv("STANDIN_GPUS");
  int count = 0, major, minor, length;
  for (text = text ? text : "9.0"; sscanf(text, " %d.%d%n", &major, &minor, &length) == 2; text += length)
    capabilities[count++] = 10 * major + minor;
  return count;
}

static int capability(unsigned device, int *major, int *minor) {
  int capabilities[MOST_GPUS];
  if (device >= (unsigned)gpus(capabilities)) return INVALID_DEVICE;
  *major = capabilities[device] / 10, *minor = capabilities[device] % 10;
  return OK;
}

static int version(void) { const char *text = getenv("STANDIN_DRIVER"); return text ? atoi(text) : 13000; }

/* --- the start, devices and contexts --- */

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
  *name = status == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : status == CAPTURING ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" : 0;
  return *name ? OK : INVALID_VALUE;
}
int cuGetErrorString(int status, const char **text) { *text = "an error of the stand-in"; return OK; }
int cuDeviceGetCount(int *count) { int all[MOST_GPUS]; WORKING *count = gpus(all); return OK; }
int cuDeviceGet(int *device, int ordinal) { int a, b; WORKING *device = ordinal; return capability(ordinal, &a, &b); }
int cuDeviceGetName(char *name, int length, int device) { WORKING snprintf(name, length, "stand-in %d", device); return OK; }
int cuDeviceGetUuid_v2(char *uuid, int device) { WORKING memset(uuid, device, 16); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { WORKING *bytes = 1 << 30; return OK; }
int cuDeviceGetAttribute(int *answer, int attribute, int device) {
  int major, minor;
  WORKING
  int status = capability(device, &major, &minor);
  *answer = attribute == 75 ? major : attribute == 76 ? minor : attribute == 1 ? 1024 : attribute == 10 ? 32 : 1;
  return status;
}
int cuDevicePrimaryCtxRetain(struct context **context, int device) {
  WORKING
  primaries[device].device = device;
  *context = &primaries[device];
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) { WORKING return OK; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { WORKING *flags = 0, *active = 1; return OK; }
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
int cuCtxGetStreamPriorityRange(int *least, int *greatest) { WITH_CONTEXT *least = *greatest = 0; return OK; }
int cuCtxSynchronize(void) { WITH_CONTEXT return OK; }

/* --- code --- */

static void note_code(const char *call, const unsigned char *code) {
  const Elf64_Ehdr *head = (const void *)code;
  size_t size = strlen((const char *)code) + 1;
  if (size > SELFMAG && !memcmp(code, ELFMAG, SELFMAG)) {
    const Elf64_Shdr *section = (const void *)(code + head->e_shoff);
    size = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
    if (head->e_phnum && head->e_phoff + (size_t)head->e_phnum * head->e_phentsize > size)
      size = head->e_phoff + (size_t)head->e_phnum * head->e_phentsize;
    for (int i = 0; i < head->e_shnum; i++)
      if (section[i].sh_type != SHT_NOBITS && section[i].sh_offset + section[i].sh_size > size)
        size = section[i].sh_offset + section[i].sh_size;
  } else size--;
  char *hex = malloc(2 * size + 1);
  for (size_t i = 0; i < size; i++) sprintf(hex + 2 * i, "%02x", code[i]);
  hex[2 * size] = 0;
  note(call, current() ? current()->device : -1, hex);
  free(hex);
}

static struct library *hold(const char *code) {
  struct library *library = calloc(1, sizeof *library);
  library->number = ++libraries;
  return library;
}

static struct kernel *find_kernel(struct library *library, const char *name) {
  struct kernel *found = kernels;
  while (found && (found->library != library || strcmp(found->name, name))) found = found->next;
  if (found) return found;
  found = calloc(1, sizeof *found);
  *found = (struct kernel){0, library, strdup(name), kernels};
  return kernels = found;
}

/* The function that a kernel is in a context, made there if need be. */
static int find_function(struct kernel *kernel, struct context *context, struct function **answer) {
  int there = 0;
  struct function *found = functions;
  for (; found; found = found->next) {
    if (found->context != context || found->life != context->life || found->kernel->library != kernel->library) continue;
    there = 1;
    if (found->kernel == kernel) break;
  }
  if (!found) {
    char number[16];
    if (!there && captures) return CAPTURING;
    snprintf(number, sizeof number, "%d", kernel->library->number);
    if (!there) note("LIBRARY", context->device, number);
    found = calloc(1, sizeof *found);
    *found = (struct function){1, kernel, context, context->life, 0, functions};
    functions = found;
  }
  *answer = found;
  return OK;
}

static int load(struct function *function) {
  if (function->loaded) return OK;
  if (captures) return CAPTURING;
  function->loaded = 1;
  note("FUNCTION", function->context->device, function->kernel->name);
  return OK;
}

static int launch(void *given, struct context *context) {
  struct function *function = given;
  int status = OK;
  if (!function->is_function) status = find_function(given, context, &function);
  if (!status) status = load(function);
  if (!status) note("LAUNCH", context->device, function->kernel->name);
  return status;
}

#define LOCKED(expression) { pthread_mutex_lock(&lock); int status = (expression); pthread_mutex_unlock(&lock); return status; }

int cuLibraryLoadData(struct library **library, const void *code, void *a, void *b, unsigned c, void *d, void *e, unsigned f) {
  WORKING
  if (captures) return CAPTURING;
  note_code("CODE", code);
  LOCKED((*library = hold(code), OK))
}
int cuLibraryUnload(struct library *library) { WORKING return OK; }
int cuLibraryGetModule(struct library **module, struct library *library) { WITH_CONTEXT *module = library; return OK; }
int cuLibraryGetKernel(struct kernel **kernel, struct library *library, const char *name) {
  WORKING
  LOCKED((*kernel = find_kernel(library, name), OK))
}
int cuKernelGetFunction(struct function **function, struct kernel *kernel) {
  WITH_CONTEXT
  LOCKED(find_function(kernel, current(), function))
}
int cuKernelGetAttribute(int *answer, int attribute, struct kernel *kernel, int device) { WORKING *answer = 256; return OK; }
int cuKernelGetParamInfo(struct kernel *kernel, size_t index, size_t *offset, size_t *size) { WORKING return INVALID_VALUE; }
int cuFuncLoad(struct function *function) { WITH_CONTEXT LOCKED(load(function)) }
int cuFuncIsLoaded(int *state, struct function *function) { WORKING *state = function->loaded; return OK; }
int cuFuncGetAttribute(int *answer, int attribute, void *function) { WORKING *answer = 256; return OK; }
int cuModuleLoadData(struct library **module, const void *code) {
  WITH_CONTEXT
  if (captures) return CAPTURING;
  note_code("CODE", code);
  LOCKED((*module = hold(code), OK))
}
int cuModuleLoadDataEx(struct library **module, const void *code, unsigned count, void *options, void *values) {
  WORKING
  return cuModuleLoadData(module, code);
}
int cuModuleUnload(struct library *module) { WORKING return OK; }
int cuModuleGetFunction(struct function **function, struct library *module, const char *name) {
  WITH_CONTEXT
  LOCKED(find_function(find_kernel(module, name), current(), function) || load(*function))
}
int cuLaunchKernel(void *function, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
                   struct stream *stream, void **arguments, void **extra) {
  WITH_CONTEXT
  LOCKED(launch(function, current()))
}
int cuLaunchKernelEx(const void *config, void *function, void **arguments, void **extra) {
  WITH_CONTEXT
  LOCKED(launch(function, current()))
}

/* --- streams, events, graphs and memory: as little as lets callers go on --- */

int cuStreamCreateWithPriority(struct stream **stream, unsigned flags, int priority) {
  WITH_CONTEXT
  *stream = calloc(1, sizeof **stream);
  (*stream)->context = current();
  return OK;
}
int cuStreamCreate(struct stream **stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
int cuStreamDestroy_v2(struct stream *stream) { WORKING return OK; }
int cuStreamSynchronize(struct stream *stream) { WORKING return OK; }
int cuStreamGetCtx_v2(struct stream *stream, struct context **context, void **green) { WITH_CONTEXT *context = current(), *green = 0; return OK; }
int cuStreamGetCtx(struct stream *stream, struct context **context) { WITH_CONTEXT *context = current(); return OK; }
int cuStreamWaitEvent(struct stream *stream, void *event, unsigned flags) { WORKING return OK; }
int cuStreamBeginCapture_v2(struct stream *stream, int mode) { WORKING stream->capturing = 1, captures++; return OK; }
int cuStreamEndCapture(struct stream *stream, void **graph) {
  WORKING
  stream->capturing = 0, captures--;
  *graph = calloc(1, 8);
  return OK;
}
int cuStreamIsCapturing(struct stream *stream, int *status) { WORKING *status = (uintptr_t)stream > 4 && stream->capturing; return OK; }
int cuStreamGetCaptureInfo_v3(struct stream *stream, int *status, uint64_t *id, void **graph, void **nodes, void **edges, size_t *count) {
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
int cuGraphInstantiateWithFlags(void **executable, void *graph, uint64_t flags) { WORKING *executable = calloc(1, 8); return OK; }
int cuGraphInstantiateWithParams(void **executable, void *graph, void *parameters) { WORKING *executable = calloc(1, 8); return OK; }
int cuUserObjectCreate(void **object, void *pointer, void (*destroy)(void *), unsigned count, unsigned flags) { WORKING *object = pointer; return OK; }
int cuUserObjectRelease(void *object, unsigned count) { WORKING return OK; }
int cuGraphRetainUserObject(void *graph, void *object, unsigned count, unsigned flags) { WORKING return OK; }
int cuGraphReleaseUserObject(void *graph, void *object, unsigned count) { WORKING return OK; }
int cuGraphExecUpdate_v2(void *executable, void *graph, void *result) { WORKING return OK; }
int cuGraphNodeFindInClone(void **node, void *original, void *graph) { WORKING *node = original; return OK; }
int cuGraphChildGraphNodeGetGraph(void *node, void **graph) { WORKING *graph = calloc(1, 8); return OK; }
int cuGraphClone(void **clone, void *graph) { WORKING *clone = calloc(1, 8); return OK; }
int cuGraphGetNodes(void *graph, void **nodes, size_t *count) { WORKING *count = 0; return OK; }
int cuGraphLaunch(void *executable, struct stream *stream) { WITH_CONTEXT note("GRAPH", current()->device, ""); return OK; }
int cuGraphUpload(void *executable, struct stream *stream) { WORKING return OK; }
int cuGraphExecDestroy(void *executable) { WORKING return OK; }
int cuGraphDestroy(void *graph) { WORKING return OK; }
int cuEventCreate(void **event, unsigned flags) { WITH_CONTEXT *event = calloc(1, 8); return OK; }
int cuEventRecord(void *event, struct stream *stream) { WORKING return OK; }
int cuEventSynchronize(void *event) { WORKING return OK; }
int cuEventElapsedTime_v2(float *milliseconds, void *start, void *end) { WORKING *milliseconds = 1; return OK; }
int cuEventQuery(void *event) { WORKING return OK; }
int cuEventDestroy_v2(void *event) { WORKING return OK; }
int cuMemGetInfo_v2(size_t *left, size_t *total) { WITH_CONTEXT *left = *total = 1 << 30; return OK; }
int cuMemAlloc_v2(void **memory, size_t bytes) { WITH_CONTEXT *memory = malloc(bytes); return OK; }
int cuMemFree_v2(void *memory) { WORKING free(memory); return OK; }
int cuMemAllocHost_v2(void **memory, size_t bytes) { WITH_CONTEXT *memory = malloc(bytes); return OK; }
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) { WITH_CONTEXT *memory = malloc(bytes); return OK; }
int cuMemFreeHost(void *memory) { WORKING free(memory); return OK; }
int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes) { WORKING memcpy(to, from, bytes); return OK; }
int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes) { WORKING memcpy(to, from, bytes); return OK; }

/* --- how bindings find the calls --- */

int cuGetProcAddress_v2(const char *name, void **call, int asked, uint64_t flags, int *why) {
  static const char *versions[] = {"", "_v2", "_v3", "_v4"};
  static void *self;
  Dl_info info;
  char full[200];
  if (!self && dladdr((void *)cuInit, &info)) self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  *call = 0;
  for (int i = 0; i < 4 && !*call; i++) {
    snprintf(full, sizeof full, "%s%s", name, versions[i]);
    *call = dlsym(self, full);
  }
  if (why) *why = *call ? 0 : 1;
  if (!*call && getenv("STANDIN_MISSING")) note("MISSING", -1, name);
  return *call ? OK : NOT_FOUND;
}
int cuGetProcAddress(const char *name, void **call, int asked, uint64_t flags) { return cuGetProcAddress_v2(name, call, asked, flags, 0); }

/* --- NVML --- */

int nvmlInit_v2(void) { BEGIN return OK; }
int nvmlShutdown(void) { BEGIN return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { int all[MOST_GPUS]; BEGIN *count = gpus(all); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { int a, b; BEGIN *device = (void *)(uintptr_t)index; return capability(index, &a, &b) ? 2 : OK; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { BEGIN return capability((uintptr_t)device, major, minor) ? 2 : OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *answer) { BEGIN *answer = version(); return OK; }
