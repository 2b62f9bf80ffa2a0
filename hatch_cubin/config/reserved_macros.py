"""Macros that a project cannot define: names in NVRTC's built-in header, and NVRTC's own macros.

With NVRTC 12.9.86, 13.0.88 and 13.5.37, an empty kernel does not compile if any name in NAMES is defined as
`4`, `float` or `1`. The only exception is `__GNUC__`, which NVRTC 12.9.86 accepts, and which is in NAMES
because 13.0.88 and 13.5.37 do not accept it. Names of the CUDA runtime (`cuda…`) are left out, because
projects do not define such macros.
"""

from __future__ import annotations

import re

NAMES = frozenset(
    """
    CU_UUID_HAS_BEEN_DEFINED CUevent_st CUexternalMemory_st CUexternalSemaphore_st CUfunc_st
    CUgraphDeviceUpdatableNode_st CUgraphExec_st CUgraphNode_st CUgraph_st CUkern_st CUlib_st
    CUmemPoolHandle_st CUstream_st CUuserObject_st CUuuid CUuuid_st ECCEnabled MAJOR_VERSION MINOR_VERSION
    PATCH_LEVEL T _NVHPC_CUDA _WIN32 __GNUC__ a accessDescCount accessDescs accessPolicyMaxWindowSize
    accessPolicyWindow addressMode align align_val_t alignment alloc allocType array asyncEngineCount attrs b
    base base_ptr begin binaryVersion blockDim blockIdx borderColor boundaryMode buf_ptr bytes bytesOverBudget
    bytesize cacheModeCA canMapHostMemory canUseHostPointerForRegisteredMem char1 char2 char4 charsize clock
    clusterDim clusterDimMustBeSet clusterLaunch clusterSchedulingPolicyPreference cnt comp
    computePreemptionSupported concurrentKernels concurrentManagedAccess conditional constSizeBytes
    const_iterator const_reference cooperative cooperativeLaunch copyParams dPdx dPdy dadd dataTable
    dataWindowSize default_ deferredMappingCudaArraySupported delta depth desc devNode devPtr device
    devicePointer deviceUpdatable deviceUpdatableKernelNode dim3 directManagedMemAccessFromHost
    disableTrilinearOptimization dmul double2int double2ll double2uint double2ull dptr dst dstArray dstDevice
    dstLocHint dstPos dstPtr dsub dynamicSmemBytes elementSize end errNode_out errorFromNode errorNode event
    eventRecord eventWait extSemArray extSemSignal extSemWait extent extra f face fd fence field filterMode
    firstLayer firstMipmapLevel flags float1 float2 float2double float4 fn format formatDesc forward free
    from_port func functionTable functionWindowSize globalL1CacheSupported gpuDirectRDMAFlushWritesOptions
    gpuDirectRDMASupported gpuDirectRDMAWritesOrdering graph gridDim handle handleTypes height hitProp
    hitRatio host hostNativeAtomicSupported hostPointer hostRegisterReadOnlySupported hostRegisterSupported id
    in in_length info initializer_list int1 int2 int2double int4 integrated ipcEventSupported isEnabled
    isMultiGpuBoard isResident is_lvalue_ref iterator kernel kernelParams key keyedMutex kind l2CacheSize
    laneMask lastLayer lastMipmapLevel launchCompletionEvent layer layerHeight layerface length level
    libraryPropertyType libraryPropertyType_t linear ll2double locHint localL1CacheSupported localSizeBytes
    location longlong1 longlong2 luid luidDeviceNodeMask major malloc managedMemory mask maxAnisotropy
    maxBlocksPerMultiProcessor maxDynamicSharedSizeBytes maxGridSize maxMipmapLevelClamp maxSize maxSurface1D
    maxSurface1DLayered maxSurface2D maxSurface2DLayered maxSurface3D maxSurfaceCubemap
    maxSurfaceCubemapLayered maxTexture1D maxTexture1DLayered maxTexture1DMipmap maxTexture2D
    maxTexture2DGather maxTexture2DLayered maxTexture2DLinear maxTexture2DMipmap maxTexture3D maxTexture3DAlt
    maxTextureCubemap maxTextureCubemapLayered maxThreadsDim maxThreadsPerBlock maxThreadsPerMultiProcessor
    memPitch memSyncDomain memSyncDomainMap memcpy memoryBusWidth memoryPoolSupportedHandleTypes
    memoryPoolsSupported memset minMipmapLevelClamp minor mipmap mipmapFilterMode mipmapLevelBias
    miptailFirstLevel miptailSize missProp mode move multiGpuBoardGroupID multiProcessorCount name node
    nonPortableClusterSizeAllowed normalizedCoords numAttrs numExtSems numLevels numRegs num_bytes
    nvSciBufObject nvSciSync nvSciSyncObj obj offset op overBudget ownership p pValue pad pageableMemoryAccess
    pageableMemoryAccessUsesHostPageTables param params paramsArray pciBusID pciDeviceID pciDomainID
    persistingL2CacheMaxSize phGraph_out pitch pitch2D pitchInBytes poolProps pred preferredClusterDim
    preferredShmemCarveout printf priority programmaticEvent programmaticStreamSerializationAllowed ptr
    ptrdiff_t ptxVersion readMode reference regsPerBlock regsPerMultiprocessor remote remove_ref
    requiredClusterDepth requiredClusterHeight requiredClusterWidth res resType reserved reserved0 reserved1
    reserved2 reservedSharedMemPerBlock result result_out rowLength sRGB seamlessCubemap sharedMem
    sharedMemBytes sharedMemCarveout sharedMemPerBlock sharedMemPerBlockOptin sharedMemPerMultiprocessor
    sharedSizeBytes short1 short2 short4 size sizeInBytes size_t size_type sparseCudaArraySupported src
    srcAccessOrder srcArray srcDevice srcLane srcLocHint srcPos srcPtr std stream streamPrioritiesSupported
    surf1DLayeredread surf1DLayeredwrite surf1Dread surf1Dwrite surf2DLayeredread surf2DLayeredwrite
    surf2Dread surf2Dwrite surf3Dread surf3Dwrite surfCubemapLayeredread surfCubemapLayeredwrite
    surfCubemapread surfCubemapwrite surfObject surfaceAlignment syncPolicy sz tccDriver tex1D tex1DGrad
    tex1DLayered tex1DLayeredGrad tex1DLayeredLod tex1DLod tex1Dfetch tex2D tex2DGrad tex2DLayered
    tex2DLayeredGrad tex2DLayeredLod tex2DLod tex2Dgather tex3D tex3DGrad tex3DLod texCubemap texCubemapGrad
    texCubemapLayered texCubemapLayeredGrad texCubemapLayeredLod texCubemapLod texObject textureAlignment
    texturePitchAlignment threadIdx tileExtent timelineSemaphoreInteropSupported timeoutMs to to_port
    totalConstMem totalGlobalMem triggerAtBlockStart type uchar1 uchar2 uchar4 uint1 uint2 uint2double uint3
    uint4 ull2double ulonglong1 ulonglong2 unifiedAddressing unifiedFunctionPointers updateData uploadStream
    usage userData ushort1 ushort2 ushort4 uuid v va_list val value value_type var vx vy vz w warpSize width
    win32 win32SecurityAttributes x xsize y ysize z
    """.split()
)

# Compilers replace a macro with parameters only in calls. With NVRTC 13.4.92, each of these names failed as a
# macro with a parameter (`-DNAME(q)=4`).
CALLED = frozenset(
    """
    CU_UUID_HAS_BEEN_DEFINED _NVHPC_CUDA _WIN32 begin clock dadd dim3 dmul double2int double2ll
    double2uint double2ull dsub end float2double forward free initializer_list int2double ll2double malloc
    memcpy memset move printf size surf1DLayeredread surf1DLayeredwrite surf1Dread surf1Dwrite
    surf2DLayeredread surf2DLayeredwrite surf2Dread surf2Dwrite surf3Dread surf3Dwrite
    surfCubemapLayeredread surfCubemapLayeredwrite surfCubemapread surfCubemapwrite tex1D tex1DGrad
    tex1DLayered tex1DLayeredGrad tex1DLayeredLod tex1DLod tex1Dfetch tex2D tex2DGrad tex2DLayered
    tex2DLayeredGrad tex2DLayeredLod tex2DLod tex2Dgather tex3D tex3DGrad tex3DLod texCubemap
    texCubemapGrad texCubemapLayered texCubemapLayeredGrad texCubemapLayeredLod texCubemapLod uint2double
    uint3 ull2double warpSize x y z
    """.split()
)

# The macros that NVRTC 12.9.86, 13.0.88 and 13.5.37 predefine, found with `#ifdef`. A definition in the
# project would be ignored, or would contradict the GPU that the code is compiled for. Macros that only
# NVRTC's own header uses (`NV_…`, `_NV_…`, `cuda…`) are left out.
PREDEFINED = re.compile(
    r"""
    __cplusplus|__cpp_\w+|__has_\w+|__(?:FILE|LINE|DATE|TIME|BASE_FILE|INCLUDE_LEVEL)__
    |__CUDACC(?:_RTC|_VER(?:_MAJOR|_MINOR|_BUILD)?)?__|__CUDA_(?:ARCH|ARCH_HAS_FEATURE|MINIMUM_ARCH)__
    |__CUDA_(?:FTZ|PREC_DIV|PREC_SQRT|API_VER_MAJOR__|API_VER_MINOR__)|__CUDANVVM__|CUDART_VERSION
    |__CUDART_API_VERSION|__EDG\w*|__STDC__|__STDC_HOSTED__|__STDCPP_DEFAULT_NEW_ALIGNMENT__|__LP64__
    |__EXCEPTIONS|__RTTI|__SIGNED_CHARS__|__CHAR16_T_AND_CHAR32_T|__ARRAY_OPERATORS|__PLACEMENT_DELETE
    |__VARIADIC_TEMPLATES|_BOOL|_WCHAR_T
    |__(?:global|device|host|shared|constant|managed|grid_constant|tile|tile_global|tile_builtin)__
    |__(?:forceinline|noinline|inline_hint|align|builtin_align|launch_bounds|cluster_dims|block_size)__
    |__(?:maxnreg|local_maxnreg|nv_pure|nv_register_params|no_return|annotate|thread|volatile|location)__
    |__(?:import|export)__
    """,
    re.VERBOSE,
)
# Maps two predefined macros to the keys in pyproject.toml that set their values.
BY_KEY = {"__CUDA_ARCH__": "archs", "__cplusplus": "options.std"}
