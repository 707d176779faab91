/*
 * Compiling kernels when they are first needed. Binaries for every card that there is would be most of a wheel, and
 * would lack those of next year; NVRTC comes with PyTorch, takes a fifth of a second, and knows its cards.
 */
#include "device/nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "device/driver.h"

typedef int result; /* 0: success */
typedef void *program;

#define NVRTC_FUNCTIONS(X)                                                                                             \
    X(nvrtcGetNumSupportedArchs, (int *n))                                                                             \
    X(nvrtcGetSupportedArchs, (int *architectures))                                                                    \
    X(nvrtcCreateProgram, (program *, const char *text, const char *name, int n_headers, const char *const *headers,   \
                           const char *const *names))                                                                  \
    X(nvrtcDestroyProgram, (program *))                                                                                \
    X(nvrtcCompileProgram, (program, int n, const char *const *options))                                               \
    X(nvrtcGetProgramLogSize, (program, size_t *))                                                                     \
    X(nvrtcGetProgramLog, (program, char *))                                                                           \
    X(nvrtcGetCUBINSize, (program, size_t *))                                                                          \
    X(nvrtcGetCUBIN, (program, char *))                                                                                \
    X(nvrtcGetPTXSize, (program, size_t *))                                                                            \
    X(nvrtcGetPTX, (program, char *))

static struct {
#define MEMBER(NAME, PARAMETERS) result(*NAME) PARAMETERS;
    NVRTC_FUNCTIONS(MEMBER)
    const char *(*nvrtcGetErrorString)(result);
} nvrtc;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool ready;

static int load(const char *path, struct leat_error *error)
{
    const char *const files[] = {
        path ? path : "libnvrtc.so.13", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so", NULL};
    char how[256];
    void *handle = leat_device_library("LEAT_LIBNVRTC", files, how, sizeof how);
    if (!handle)
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "NVRTC, which compiles kernels, is not on this machine (%s): PyTorch for CUDA brings it, or "
                         "pip install nvidia-cuda-nvrtc-cu12 (or nvidia-cuda-nvrtc for CUDA 13)",
                         how);
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
#define SYMBOL(NAME, PARAMETERS) {#NAME, offsetof(__typeof__(nvrtc), NAME)},
        NVRTC_FUNCTIONS(SYMBOL) SYMBOL(nvrtcGetErrorString, )};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(handle, functions[i].name);
        if (!function) {
            dlclose(handle);
            return leat_fail(error, LEAT_E_UNSUPPORTED,
                             "NVRTC is too old: it has no %s; install one of CUDA 11.4 or later", functions[i].name);
        }
        memcpy((uint8_t *)&nvrtc + functions[i].at, &function, sizeof function);
    }
    return LEAT_OK;
}

/* The newest architecture up to the card's that the compiler knows, such as 90; 0: none. */
static int newest_known(int wanted)
{
    int n = 0, known[256], found = 0;
    if (nvrtc.nvrtcGetNumSupportedArchs(&n) || n > 256 || nvrtc.nvrtcGetSupportedArchs(known))
        return 0;
    for (int i = 0; i < n; i++)
        if (known[i] <= wanted && known[i] > found)
            found = known[i];
    return found;
}

static char *log_of(program p)
{
    size_t bytes = 0;
    char *log = nvrtc.nvrtcGetProgramLogSize(p, &bytes) ? NULL : leat_alloc(bytes + 1);
    if (log && nvrtc.nvrtcGetProgramLog(p, log))
        bytes = 0;
    if (log)
        log[bytes] = 0;
    return log;
}

static int compile(program p, const struct leat_kernel_source *source, const char *const *options, int n, bool binary,
                   void **image, size_t *bytes, char **log, struct leat_error *error)
{
    const result code = nvrtc.nvrtcCompileProgram(p, n, options);
    char *said = code || log ? log_of(p) : NULL;
    if (code) {
        leat_fail(error, LEAT_E_INVALID, "NVRTC does not compile %s: %s: %.300s", source->name,
                  nvrtc.nvrtcGetErrorString(code), said ? said : "");
        leat_free(said);
        return LEAT_E_INVALID;
    }
    if (log)
        *log = said;
    if (binary ? nvrtc.nvrtcGetCUBINSize(p, bytes) : nvrtc.nvrtcGetPTXSize(p, bytes))
        return leat_fail(error, LEAT_E_INVALID, "NVRTC gives no code of %s", source->name);
    if (!(*image = leat_alloc(*bytes ? *bytes : 1)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the code of %s", source->name);
    if (binary ? nvrtc.nvrtcGetCUBIN(p, *image) : nvrtc.nvrtcGetPTX(p, *image))
        return leat_fail(error, LEAT_E_INVALID, "NVRTC gives no code of %s", source->name);
    return LEAT_OK;
}

int leat_nvrtc_compile(const char *path, const struct leat_kernel_source *source, int major, int minor,
                       const char *const *defines, int n, void **image, size_t *bytes, char **log,
                       struct leat_error *error)
{
    enum { MOST = 8 };
    const int wanted = major * 10 + minor;
    *image = NULL;
    if (log)
        *log = NULL;
    pthread_mutex_lock(&mutex);
    int rc = ready ? LEAT_OK : load(path, error), known = 0;
    ready = !rc;
    pthread_mutex_unlock(&mutex);
    if (!rc && !(known = newest_known(wanted)))
        rc = leat_fail(error, LEAT_E_UNSUPPORTED,
                       "NVRTC knows no architecture up to the card's, %d.%d: install an older one", major, minor);
    program p = NULL;
    if (rc)
        return rc;
    if (n > MOST - 3 || nvrtc.nvrtcCreateProgram(&p, source->text, source->name, source->n_headers, source->headers,
                                                 source->header_names))
        return leat_fail(error, LEAT_E_NOMEM, "NVRTC does not take %s", source->name);
    char architecture[64];
    const bool binary = known == wanted;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%d", binary ? "sm" : "compute", known);
    const char *options[MOST] = {architecture};
    int n_options = 1;
    for (int i = 0; i < n; i++)
        options[n_options++] = defines[i];
    options[n_options++] = "--fmad=false"; /* doubles are rounded as on the processor */
    if (log && binary)
        options[n_options++] = "--ptxas-options=-v";
    rc = compile(p, source, options, n_options, binary, image, bytes, log, error);
    nvrtc.nvrtcDestroyProgram(&p);
    if (rc) {
        leat_free(*image);
        *image = NULL;
        if (log) {
            leat_free(*log);
            *log = NULL;
        }
    }
    return rc;
}
