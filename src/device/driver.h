/*
 * The CUDA driver, loaded when a card is first asked for. Neither the build nor a wheel needs it: its types are
 * declared here, by their sizes, and its functions found by name. Tests put a library of their own in its place
 * (LEAT_LIBCUDA, tests/c/device/standin.c).
 */
#ifndef LEAT_DEVICE_DRIVER_H
#define LEAT_DEVICE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

typedef int leat_cu_result; /* 0: success */
typedef int leat_cu_device;
typedef void *leat_cu_handle;    /* of a context, a module, a function, a stream */
typedef uint64_t leat_cu_memory; /* an address on the card */
struct leat_cu_ipc {             /* an allocation, for other processes */
    char bytes[64];
};

enum {
    LEAT_CU_INVALID_VALUE = 1,
    LEAT_CU_OUT_OF_MEMORY = 2,
    LEAT_CU_NOT_INITIALIZED = 3,
    LEAT_CU_STUB_LIBRARY = 34,
    LEAT_CU_UNAVAILABLE = 46, /* the card is in exclusive mode */
    LEAT_CU_NO_DEVICE = 100,
    LEAT_CU_INVALID_DEVICE = 101,
    LEAT_CU_INVALID_IMAGE = 200,
    LEAT_CU_NO_BINARY = 209,
    LEAT_CU_UNSUPPORTED_PTX = 222,
    LEAT_CU_ALREADY_REGISTERED = 712,
    LEAT_CU_NOT_SUPPORTED = 801,
    LEAT_CU_NOT_READY_SYSTEM = 802,
    LEAT_CU_MISMATCH = 803, /* of the driver's library and its kernel module */
    LEAT_CU_COMPATIBILITY = 804,
    LEAT_CU_OLD_DRIVER = 35,
    LEAT_CU_OLDEST_DRIVER = 11040, /* 11.4 */
    LEAT_CU_HOST_PORTABLE = 1,     /* flags of host memory */
    LEAT_CU_HOST_MAPPED = 2,
    LEAT_CU_HOST_READ_ONLY = 8,
    LEAT_CU_STREAM_NON_BLOCKING = 1,
    LEAT_CU_EVENT_BLOCKING_SYNC = 1, /* flags of an event */
    LEAT_CU_EVENT_NO_TIMING = 2,
    LEAT_CU_CAPTURE_RELAXED = 2,
    LEAT_CU_IPC_LAZY = 1, /* peers' memory is reached as it is needed */
    LEAT_CU_NOT_READY = 600,
    LEAT_CU_POINTER_RANGE_START = 11, /* attributes of an address: the allocation that it is in */
    LEAT_CU_POINTER_RANGE_SIZE = 12,
    LEAT_CU_ATTRIBUTE_MAJOR = 75, /* of the architecture */
    LEAT_CU_ATTRIBUTE_MINOR = 76
};

#define LEAT_CUDA_FUNCTIONS(X)                                                                                         \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDriverGetVersion, (int *version))                                                                              \
    X(cuGetErrorString, (leat_cu_result code, const char **text))                                                      \
    X(cuDeviceGet, (leat_cu_device * device, int ordinal))                                                             \
    X(cuDeviceGetCount, (int *count))                                                                                  \
    X(cuDeviceGetUuid_v2, (uint8_t uuid[16], leat_cu_device device))                                                   \
    X(cuDeviceGetName, (char *name, int room, leat_cu_device device))                                                  \
    X(cuDeviceGetAttribute, (int *value, int attribute, leat_cu_device device))                                        \
    X(cuDevicePrimaryCtxRetain, (leat_cu_handle * context, leat_cu_device device))                                     \
    X(cuCtxPushCurrent_v2, (leat_cu_handle context))                                                                   \
    X(cuCtxPopCurrent_v2, (leat_cu_handle * context))                                                                  \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuMemGetInfo_v2, (size_t * free, size_t * total))                                                                \
    X(cuMemHostRegister_v2, (void *p, size_t bytes, unsigned flags))                                                   \
    X(cuMemHostUnregister, (void *p))                                                                                  \
    X(cuMemHostAlloc, (void **p, size_t bytes, unsigned flags))                                                        \
    X(cuMemFreeHost, (void *p))                                                                                        \
    X(cuMemHostGetDevicePointer_v2, (leat_cu_memory * at, void *p, unsigned flags))                                    \
    X(cuPointerGetAttribute, (void *value, int attribute, leat_cu_memory at))                                          \
    X(cuModuleLoadData, (leat_cu_handle * module, const void *image))                                                  \
    X(cuModuleGetFunction, (leat_cu_handle * function, leat_cu_handle module, const char *name))                       \
    X(cuModuleUnload, (leat_cu_handle module))                                                                         \
    X(cuMemAlloc_v2, (leat_cu_memory * at, size_t bytes))                                                              \
    X(cuMemFree_v2, (leat_cu_memory at))                                                                               \
    X(cuMemcpyHtoDAsync_v2, (leat_cu_memory to, const void *from, size_t bytes, leat_cu_handle stream))                \
    X(cuMemcpyDtoDAsync_v2, (leat_cu_memory to, leat_cu_memory from, size_t bytes, leat_cu_handle stream))             \
    X(cuMemGetAddressRange_v2, (leat_cu_memory * begin, size_t * bytes, leat_cu_memory at))                            \
    X(cuIpcGetMemHandle, (struct leat_cu_ipc * handle, leat_cu_memory at))                                             \
    X(cuIpcOpenMemHandle_v2, (leat_cu_memory * at, struct leat_cu_ipc handle, unsigned flags))                         \
    X(cuIpcCloseMemHandle, (leat_cu_memory at))                                                                        \
    X(cuMemcpyDtoHAsync_v2, (void *to, leat_cu_memory from, size_t bytes, leat_cu_handle stream))                      \
    X(cuStreamCreate, (leat_cu_handle * stream, unsigned flags))                                                       \
    X(cuStreamDestroy_v2, (leat_cu_handle stream))                                                                     \
    X(cuThreadExchangeStreamCaptureMode, (int *mode))                                                                  \
    X(cuStreamIsCapturing, (leat_cu_handle stream, int *status))                                                       \
    X(cuStreamWaitEvent, (leat_cu_handle stream, leat_cu_handle event, unsigned flags))                                \
    X(cuEventCreate, (leat_cu_handle * event, unsigned flags))                                                         \
    X(cuEventDestroy_v2, (leat_cu_handle event))                                                                       \
    X(cuEventRecord, (leat_cu_handle event, leat_cu_handle stream))                                                    \
    X(cuEventQuery, (leat_cu_handle event))                                                                            \
    X(cuEventSynchronize, (leat_cu_handle event))                                                                      \
    X(cuEventElapsedTime, (float *ms, leat_cu_handle begin, leat_cu_handle end))                                       \
    X(cuLaunchKernel,                                                                                                  \
      (leat_cu_handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
       unsigned block_z, unsigned shared_bytes, leat_cu_handle stream, void **arguments, void **extra))                \
    X(cuStreamSynchronize, (leat_cu_handle stream))

struct leat_cuda {
#define LEAT_CUDA_MEMBER(NAME, PARAMETERS) leat_cu_result(*NAME) PARAMETERS;
    LEAT_CUDA_FUNCTIONS(LEAT_CUDA_MEMBER)
#undef LEAT_CUDA_MEMBER
    int version; /* 1000 * major + 10 * minor */
};

/* The driver, initialised. Any thread; never unloaded.
 * Errors: UNSUPPORTED (there is none, it is too old, there is no card), BUSY, IO: the next call looks again. FORKED. */
int leat_cuda_get(const struct leat_cuda **out, struct leat_error *error);
/* FORKED in a child of the process that has loaded the driver, which does not work there; takes no lock. */
int leat_cuda_here(struct leat_error *error);

/* Fills the error of a call that has not succeeded, with its remedy; returns its code. `what`: the thing that failed,
 * for people: "the kernel was not started". The context of the card is current, or NULL memory counts are left out. */
int leat_cuda_fail(const struct leat_cuda *cuda, leat_cu_result code, const char *what, struct leat_error *error);
/* The same of a call that was to pin `bytes` of the host's memory. */
int leat_cuda_fail_pinning(const struct leat_cuda *cuda, leat_cu_result code, uint64_t bytes, struct leat_error *error);

/* Loads a library: the file that the variable names, or the first of `files` that there is. NULL: error `how`, a text
 * for the dynamic linker's, is set. */
void *leat_device_library(const char *variable, const char *const *files, char *how, size_t room);

#endif
