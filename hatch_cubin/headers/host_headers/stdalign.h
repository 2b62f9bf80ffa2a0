#pragma once
// Stands in for the host's <stdalign.h>: C++ has these words.
