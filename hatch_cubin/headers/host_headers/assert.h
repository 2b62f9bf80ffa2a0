#pragma once
// Stands in for the host's <assert.h>: assert is built into NVRTC.
