/* What was asked, and what is to go wrong. */

#include "standin.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

pid_t started;
int captures;
__thread struct context *stack[DEEPEST];
__thread int depth;

void note(const char *what, int device, const char *detail) {
  const char *path = getenv("STANDIN_LOG");
  if (!path) return;
  char *line;
  int length = asprintf(&line, "%d %ld %s %d %s\n", getpid(), syscall(SYS_gettid), what, device, detail);
  int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (write(file, line, length) != length) abort(); /* one write: lines of processes do not mix */
  close(file);
  free(line);
}

struct context *current(void) { return depth ? stack[depth - 1] : 0; }

/* Notes a call and returns what is to be answered instead; DO where nothing is. */
int begin(const char *call) {
  note(call, current() ? current()->device : -1, "");
  const char *faults = getenv("STANDIN_FAULTS");
  size_t length = strlen(call);
  for (const char *at = faults; at && (at = strstr(at, call)); at += length) {
    if ((at != faults && at[-1] != ' ') || at[length] != '=') continue;
    const char *what = at + length + 1;
    if (!strncmp(what, "crash", 5)) raise(SIGSEGV);
    if (!strncmp(what, "forget", 6)) return OK;
    if (strncmp(what, "hang", 4)) return atoi(what);
    close(open("pipe", O_RDONLY));
  }
  return DO;
}

int working(const char *call) {
  int instead = begin(call);
  return instead == DO && started != getpid() ? NOT_INITIALIZED : instead;
}

int gpus(int capabilities[MOST_GPUS]) {
  const char *text = getenv("STANDIN_GPUS");
  int count = 0, major, minor, length;
  for (text = text ? text : "9.0"; sscanf(text, " %d.%d%n", &major, &minor, &length) == 2; text += length)
    capabilities[count++] = 10 * major + minor;
  return count;
}

int capability(unsigned device, int *major, int *minor) {
  int capabilities[MOST_GPUS];
  if (device >= (unsigned)gpus(capabilities)) return INVALID_DEVICE;
  *major = capabilities[device] / 10, *minor = capabilities[device] % 10;
  return OK;
}

int version(void) { const char *text = getenv("STANDIN_DRIVER"); return text ? atoi(text) : 13000; }
