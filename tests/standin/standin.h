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
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  OK = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500, CAPTURING = 900, DO = -1,
};
enum { MOST_GPUS = 16, DEEPEST = 64 };

struct context { int device, life; }; /* a life ends with a reset */
struct stream { int capturing; };

extern pid_t started;
extern int captures; /* streams that are captured now */
extern __thread struct context *stack[DEEPEST];
extern __thread int depth;

struct context *current(void);
void note(const char *what, int device, const char *detail);
int begin(const char *call);
int working(const char *call);
int gpus(int capabilities[MOST_GPUS]);
int capability(unsigned device, int *major, int *minor);
int version(void);

#define BEGIN { int instead = begin(__func__); if (instead != DO) return instead; }
#define WORKING { int instead = working(__func__); if (instead != DO) return instead; }
#define WITH_CONTEXT WORKING if (!current()) return INVALID_CONTEXT;
