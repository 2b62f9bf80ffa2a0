#pragma once
// Stands in for the host's <sys/types.h>: the short names that most host headers bring along.
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
