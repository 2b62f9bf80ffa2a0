/* Libraries, kernels and functions: what reached the driver, where it is loaded, and when. */

#include "standin.h"
#include <elf.h>

struct library { int number; };
struct kernel { int is_function; struct library *library; char *name; struct kernel *next; };
struct function {
  int is_function;
  struct kernel *kernel;
  struct context *context;
  int life, loaded;
  struct function *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int libraries;
static struct kernel *kernels;
static struct function *functions;

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
  } else {
    size--; /* text, and its end */
  }
  char *hex = malloc(2 * size + 1);
  for (size_t i = 0; i < size; i++) sprintf(hex + 2 * i, "%02x", code[i]);
  hex[2 * size] = 0;
  note(call, current() ? current()->device : -1, hex);
  free(hex);
}

static struct library *hold(void) {
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
  if (!kernel) return INVALID_HANDLE;
  struct function *found = functions;
  for (; found; found = found->next) {
    if (found->context != context || found->life != context->life) continue;
    there |= found->kernel->library == kernel->library;
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
  if (!function) return INVALID_HANDLE;
  if (function->loaded) return OK;
  if (captures) return CAPTURING;
  function->loaded = 1;
  note("FUNCTION", function->context->device, function->kernel->name);
  return OK;
}

static int launch(void *given, struct context *context) {
  struct function *function = given;
  int status = OK;
  if (!function) return INVALID_HANDLE;
  if (!function->is_function) status = find_function(given, context, &function);
  if (!status) status = load(function);
  if (!status) note("LAUNCH", context->device, function->kernel->name);
  return status;
}

#define LOCKED(expression) {     \
  pthread_mutex_lock(&lock);     \
  int status = OK;               \
  status = (expression);         \
  pthread_mutex_unlock(&lock);   \
  return status;                 \
}

int cuLibraryLoadData(struct library **library, const void *code, void *a, void *b, unsigned c, void *d,
    void *e, unsigned f) {
  WORKING
  if (captures) return CAPTURING;
  note_code("CODE", code);
  LOCKED((*library = hold(), OK))
}
int cuLibraryUnload(struct library *library) { WORKING return OK; }
int cuLibraryGetModule(struct library **module, struct library *library) {
  WITH_CONTEXT
  *module = library;
  return OK;
}
int cuLibraryGetKernel(struct kernel **kernel, struct library *library, const char *name) {
  WORKING
  if (!library) return INVALID_HANDLE;
  LOCKED((*kernel = find_kernel(library, name), OK))
}
int cuKernelGetFunction(struct function **function, struct kernel *kernel) {
  WITH_CONTEXT
  LOCKED(find_function(kernel, current(), function))
}
int cuKernelGetAttribute(int *answer, int attribute, struct kernel *kernel, int device) {
  WORKING
  *answer = 256;
  return OK;
}
int cuKernelGetParamInfo(struct kernel *kernel, size_t index, size_t *offset, size_t *size) {
  WORKING
  return INVALID_VALUE;
}
int cuFuncLoad(struct function *function) { WITH_CONTEXT LOCKED(load(function)) }
int cuFuncIsLoaded(int *state, struct function *function) { WORKING *state = function->loaded; return OK; }
int cuFuncGetAttribute(int *answer, int attribute, void *function) { WORKING *answer = 256; return OK; }
int cuModuleLoadData(struct library **module, const void *code) {
  WITH_CONTEXT
  if (captures) return CAPTURING;
  note_code("CODE", code);
  LOCKED((*module = hold(), OK))
}
int cuModuleLoadDataEx(struct library **module, const void *code, unsigned count, void *options,
    void *values) {
  WORKING
  return cuModuleLoadData(module, code);
}
int cuModuleUnload(struct library *module) { WORKING return OK; }
int cuModuleGetFunction(struct function **function, struct library *module, const char *name) {
  WITH_CONTEXT
  LOCKED((status = find_function(find_kernel(module, name), current(), function)) ? status : load(*function))
}
int cuLaunchKernel(void *function, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f,
    unsigned g, struct stream *stream, void **arguments, void **extra) {
  WITH_CONTEXT
  LOCKED(launch(function, current()))
}
int cuLaunchKernelEx(const void *config, void *function, void **arguments, void **extra) {
  WITH_CONTEXT
  LOCKED(launch(function, current()))
}
