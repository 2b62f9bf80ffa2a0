#pragma once
// Stands in for the host's <stdarg.h>: va_list and its macros are built into NVRTC.
