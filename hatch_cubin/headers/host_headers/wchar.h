#pragma once
// Stands in for the host's <wchar.h>: C++ has wchar_t; its functions are for the host.
typedef unsigned int wint_t;
