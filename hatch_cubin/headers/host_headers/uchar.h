#pragma once
// Stands in for the host's <uchar.h>: C++ has its types; its functions are for the host.
