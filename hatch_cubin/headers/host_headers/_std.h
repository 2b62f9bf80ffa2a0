#pragma once
// What libcu++ declares in cuda::std is found in std too; NVRTC's own std declarations come first.
namespace cuda { namespace std {} }
namespace std { using namespace ::cuda::std; }
