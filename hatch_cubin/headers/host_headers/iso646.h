#pragma once
// Stands in for the host's <iso646.h>: C++ has these words.
