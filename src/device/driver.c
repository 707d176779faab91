/*
 * Loading the CUDA driver, and its errors as leat's. A driver belongs to the machine: containers get it from outside,
 * and it may appear or be repaired while the process lives, so that only success is kept.
 */
#include "device/driver.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct leat_cuda cuda;
static bool ready;
static _Atomic pid_t
    owner; /* of the driver, from before it is loaded: a child may not even wait for the mutex. 0: none */

void *leat_device_library(const char *variable, const char *const *files, char *how, size_t room)
{
    const char *named = secure_getenv(variable);
    void *handle = NULL;
    snprintf(how, room, "not looked for");
    if (named && *named)
        handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    for (; !handle && !(named && *named) && *files; files++)
        handle = dlopen(*files, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *text = dlerror();
        snprintf(how, room, "%s", text ? text : "unknown");
    }
    return handle;
}

struct advice {
    leat_cu_result code;
    int status;
    const char *text;
};
static const struct advice advice[] = {
    {LEAT_CU_OUT_OF_MEMORY, LEAT_E_NOMEM, ""}, /* its numbers follow */
    {LEAT_CU_NOT_INITIALIZED, LEAT_E_FORKED,
     "it does not start in a process that was forked from one that uses CUDA: start such processes by spawn"},
    {LEAT_CU_STUB_LIBRARY, LEAT_E_UNSUPPORTED,
     "libcuda.so.1 is the toolkit's stub: take the folder 'stubs' out of LD_LIBRARY_PATH"},
    {LEAT_CU_OLD_DRIVER, LEAT_E_UNSUPPORTED, "the driver is too old: update it"},
    {LEAT_CU_UNAVAILABLE, LEAT_E_BUSY,
     "the card is in exclusive mode and another process has it: wait for that, or set it to the default mode "
     "(nvidia-smi -c 0)"},
    {LEAT_CU_NO_DEVICE, LEAT_E_UNSUPPORTED, "there is no card, or CUDA_VISIBLE_DEVICES hides it"},
    {LEAT_CU_INVALID_DEVICE, LEAT_E_RANGE, "there is no card of that number"},
    {LEAT_CU_INVALID_IMAGE, LEAT_E_UNSUPPORTED,
     "the driver is older than NVRTC: update it, or install the NVRTC of its version (nvidia-cuda-nvrtc-cu12 for 12)"},
    {LEAT_CU_NO_BINARY, LEAT_E_UNSUPPORTED,
     "the driver knows no code for this card: update it, or install a newer NVRTC"},
    {LEAT_CU_UNSUPPORTED_PTX, LEAT_E_UNSUPPORTED,
     "the driver is older than NVRTC: update it, or install the NVRTC of its version (nvidia-cuda-nvrtc-cu12 for 12)"},
    {LEAT_CU_NOT_SUPPORTED, LEAT_E_UNSUPPORTED, "this card or system does not support it"},
    {LEAT_CU_NOT_READY_SYSTEM, LEAT_E_UNSUPPORTED,
     "the switches between the cards are not set up: start nvidia-fabricmanager, of the driver's version"},
    {LEAT_CU_MISMATCH, LEAT_E_UNSUPPORTED,
     "the driver's library and its kernel module have different versions: restart "
     "the machine, or give the container the host's library"},
    {LEAT_CU_COMPATIBILITY, LEAT_E_UNSUPPORTED,
     "this card takes no driver of the package cuda-compat: take its folder out of LD_LIBRARY_PATH, or update the "
     "driver"},
};

/* Each further call has these: of memory, of hardware, of a kernel that failed. */
static const leat_cu_result stay[] = {214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719};

static bool is_lost(leat_cu_result code)
{
    bool lost = false;
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        lost |= stay[i] == code;
    return lost;
}

int leat_cuda_fail(const struct leat_cuda *c, leat_cu_result code, const char *what, struct leat_error *error)
{
    const char *text = NULL;
    if (c->cuGetErrorString(code, &text) || !text)
        text = "unknown error";
    size_t free = 0, total = 0;
    if (code == LEAT_CU_OUT_OF_MEMORY && !c->cuMemGetInfo_v2(&free, &total))
        return leat_fail(error, LEAT_E_NOMEM,
                         "%s: out of memory: %zu of the card's %zu bytes are free (PyTorch gives back what it only "
                         "caches by torch.cuda.empty_cache())",
                         what, free, total);
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
        if (advice[i].code == code)
            return leat_fail(error, advice[i].status, "%s: %s (CUDA error %d)%s%s", what, text, code,
                             *advice[i].text ? ": " : "", advice[i].text);
    return leat_fail(error, LEAT_E_IO, "%s: %s (CUDA error %d)%s", what, text, code,
                     is_lost(code) ? ": the card's context is lost: start the process again" : "");
}

int leat_cuda_fail_pinning(const struct leat_cuda *c, leat_cu_result code, uint64_t bytes, struct leat_error *error)
{
    char what[96];
    snprintf(what, sizeof what, "the driver refuses to pin %" PRIu64 " bytes of the host's memory", bytes);
    if (is_lost(code))
        return leat_cuda_fail(c, code, what, error);
    return leat_fail(error, LEAT_E_NOMEM,
                     "%s (CUDA error %d): free memory, or raise the limit of locked memory (ulimit -l; in a container: "
                     "--ulimit memlock=-1)",
                     what, code);
}

static int load(struct leat_error *error)
{
    static const char *const files[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", NULL};
    char how[256];
    void *handle = leat_device_library("LEAT_LIBCUDA", files, how, sizeof how);
    if (!handle)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "no CUDA driver is on this machine (%s)", how);
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
#define SYMBOL(NAME, PARAMETERS) {#NAME, offsetof(struct leat_cuda, NAME)},
        LEAT_CUDA_FUNCTIONS(SYMBOL)
#undef SYMBOL
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(handle, functions[i].name);
        if (!function) {
            dlclose(handle);
            return leat_fail(error, LEAT_E_UNSUPPORTED, "the CUDA driver is too old: it has no %s; update it",
                             functions[i].name);
        }
        memcpy((uint8_t *)&cuda + functions[i].at, &function, sizeof function);
    }
    leat_cu_result code = cuda.cuInit(0);
    if (!code)
        code = cuda.cuDriverGetVersion(&cuda.version);
    int rc = code ? leat_cuda_fail(&cuda, code, "the CUDA driver does not start", error) : LEAT_OK;
    if (!rc && cuda.version < LEAT_CU_OLDEST_DRIVER)
        rc = leat_fail(error, LEAT_E_UNSUPPORTED,
                       "the CUDA driver is too old: it is of CUDA %d.%d, and %d.%d is needed", cuda.version / 1000,
                       cuda.version % 1000 / 10, LEAT_CU_OLDEST_DRIVER / 1000, LEAT_CU_OLDEST_DRIVER % 1000 / 10);
    if (rc)
        dlclose(handle);
    return rc;
}

int leat_cuda_here(struct leat_error *error)
{
    const pid_t loaded_by = atomic_load(&owner);
    if (!loaded_by || loaded_by == getpid())
        return LEAT_OK;
    return leat_fail(error, LEAT_E_FORKED,
                     "this process was forked from one that uses CUDA, which works there alone: open cards in the "
                     "children only, or start processes by spawn");
}

int leat_cuda_get(const struct leat_cuda **out, struct leat_error *error)
{
    pid_t none = 0;
    *out = NULL;
    atomic_compare_exchange_strong(&owner, &none, getpid());
    int rc = leat_cuda_here(error);
    if (rc)
        return rc;
    pthread_mutex_lock(&mutex);
    rc = ready ? LEAT_OK : load(error);
    ready = !rc;
    if (rc)
        atomic_store(&owner, 0);
    pthread_mutex_unlock(&mutex);
    *out = rc ? NULL : &cuda;
    return rc;
}
