#pragma once
// Stands in for the host's <stdlib.h>: malloc and free are built into NVRTC.
#include "sys/types.h"
