/*
 * The driver pins a page once, and counts no users: tables over one array, or over parts of it, would end each other's.
 * So they are counted here. A part that reaches out of what is pinned is refused, as the driver would.
 */
#include "device/pin.h"

#include <pthread.h>

#include "base/alloc.h"

struct leat_pin {
    const uint8_t *data;
    uint64_t bytes, users;
    struct leat_pin *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct leat_pin *pins;

static struct leat_pin *find(const uint8_t *data, uint64_t bytes)
{
    struct leat_pin *p = pins;
    while (p && !(data >= p->data && data + bytes <= p->data + p->bytes))
        p = p->next;
    return p;
}

/* The driver pins it. `mine`: by this call. */
static bool pin(const struct leat_cuda *cuda, void *data, uint64_t bytes, bool *mine)
{
    const unsigned flags = LEAT_CU_HOST_PORTABLE | LEAT_CU_HOST_MAPPED;
    leat_cu_result code = cuda->cuMemHostRegister_v2(data, bytes, flags);
    if (code && code != LEAT_CU_ALREADY_REGISTERED) /* memory that may not be written to */
        code = cuda->cuMemHostRegister_v2(data, bytes, flags | LEAT_CU_HOST_READ_ONLY);
    *mine = !code;
    return !code || code == LEAT_CU_ALREADY_REGISTERED;
}

bool leat_pin_take(const struct leat_cuda *cuda, const void *data, uint64_t bytes, struct leat_pin **out,
                   leat_cu_memory *at)
{
    void *p = (void *)(uintptr_t)data;
    leat_cu_memory last;
    pthread_mutex_lock(&mutex);
    struct leat_pin *made = NULL, *known = find(data, bytes);
    bool mine = false, good = known || ((made = leat_new(struct leat_pin)) && pin(cuda, p, bytes, &mine));
    /* Its last byte, too: somebody else may have pinned a part of it. */
    good = good && !cuda->cuMemHostGetDevicePointer_v2(&last, (uint8_t *)p + bytes - 1, 0) &&
           !cuda->cuMemHostGetDevicePointer_v2(at, p, 0) && last - *at == bytes - 1;
    if (good && mine) {
        *made = (struct leat_pin){.data = data, .bytes = bytes, .next = pins};
        known = pins = made;
    } else {
        if (mine)
            cuda->cuMemHostUnregister(p);
        leat_free(made);
    }
    if (good && known)
        known->users++;
    *out = good ? known : NULL;
    pthread_mutex_unlock(&mutex);
    return good;
}

void leat_pin_give(const struct leat_cuda *cuda, struct leat_pin *pin)
{
    pthread_mutex_lock(&mutex);
    if (pin && !--pin->users) {
        struct leat_pin **at = &pins;
        while (*at != pin)
            at = &(*at)->next;
        *at = pin->next;
        cuda->cuMemHostUnregister((void *)(uintptr_t)pin->data);
        leat_free(pin);
    }
    pthread_mutex_unlock(&mutex);
}
