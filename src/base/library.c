/* Loading libraries at run time. One that was loaded stays. */
#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

enum { UNKNOWN = 0, THERE, MISSING };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&mutex);
}

/* So that no child begins with the lock held by a thread that it does not have. */
static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static bool resolve(void *handle, const struct leat_library *library)
{
    for (const struct leat_library_symbol *symbol = library->symbols; symbol->name; symbol++) {
        void *function = dlsym(handle, symbol->name);
        if (!function)
            return false;
        memcpy((uint8_t *)library->functions + symbol->at, &function, sizeof function);
    }
    return true;
}

static int load(const struct leat_library *library)
{
    for (const char *const *file = library->files; *file; file++) {
        void *handle = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
        if (handle && resolve(handle, library))
            return THERE;
        if (handle)
            dlclose(handle);
    }
    return MISSING;
}

int leat_library_load(struct leat_library *library, struct leat_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int state = atomic_load_explicit(&library->state, memory_order_acquire);
    if (state == UNKNOWN) {
        pthread_once(&once, watch_forks);
        pthread_mutex_lock(&mutex);
        state = atomic_load_explicit(&library->state, memory_order_relaxed);
        if (state == UNKNOWN) {
            state = load(library);
            atomic_store_explicit(&library->state, state, memory_order_release);
        }
        pthread_mutex_unlock(&mutex);
    }
    if (state == THERE)
        return LEAT_OK;
    return leat_fail(error, LEAT_E_DECODE, "%s: %s, which decodes it, is not on this machine: %s", library->format,
                     library->files[0], library->advice);
}
