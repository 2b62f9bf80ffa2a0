#pragma once
// Stands in for the host's <errno.h>: device code has no errno, the header may be included out of habit.
