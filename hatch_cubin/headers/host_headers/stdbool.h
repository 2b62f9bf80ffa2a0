#pragma once
// Stands in for the host's <stdbool.h>: C++ has bool.
