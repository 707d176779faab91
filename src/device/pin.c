/*
 * The driver pins a page once, and counts no users: tables over one array, or over parts of it, would end each other's.
 * So they are counted here. A part that reaches out of what is pinned is refused, as the driver would.
 */
#include "device/pin.h"

#include <pthread.h>

#include "base/alloc.h"

#define PAGE 4096 /* bytes, the least that a system has */

struct leat_pin {
    const uint8_t *data;
    uint64_t bytes, users;
    struct leat_pin *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct leat_pin *pins;

/* The first one that has some of the pages of these bytes: pages are what is pinned. */
static struct leat_pin *find(const uint8_t *data, uint64_t bytes)
{
    const uintptr_t begin = (uintptr_t)data / PAGE, end = ((uintptr_t)data + bytes - 1) / PAGE;
    struct leat_pin *p = pins;
    while (p && !(begin <= ((uintptr_t)p->data + p->bytes - 1) / PAGE && (uintptr_t)p->data / PAGE <= end))
        p = p->next;
    return p;
}

/* Whether the driver pins it now. */
static bool pin(const struct leat_cuda *cuda, void *data, uint64_t bytes)
{
    const unsigned flags = LEAT_CU_HOST_PORTABLE | LEAT_CU_HOST_MAPPED;
    return !cuda->cuMemHostRegister_v2(data, bytes, flags) || /* or memory that may not be written to: */
           !cuda->cuMemHostRegister_v2(data, bytes, flags | LEAT_CU_HOST_READ_ONLY);
}

bool leat_pin_take(const struct leat_cuda *cuda, const void *data, uint64_t bytes, struct leat_pin **out,
                   leat_cu_memory *at)
{
    const uint8_t *begin = data;
    void *p = (void *)(uintptr_t)data;
    leat_cu_memory last;
    pthread_mutex_lock(&mutex);
    struct leat_pin *known = find(begin, bytes), *made = known ? NULL : leat_new(struct leat_pin);
    const bool mine = made && pin(cuda, p, bytes);
    bool good = made || (known && begin >= known->data && begin + bytes <= known->data + known->bytes);
    /* Memory that the driver refuses may be pinned already, by PyTorch: then all of it has an address for the card. */
    good = good && !cuda->cuMemHostGetDevicePointer_v2(&last, (void *)(uintptr_t)(begin + bytes - 1), 0) &&
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
