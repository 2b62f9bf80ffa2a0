#pragma once
// Stands in for the host's <stdio.h>: printf is built into NVRTC.
