#pragma once
// Stands in for the host's <memory.h>, the old name of <string.h>.
#include "string.h"
