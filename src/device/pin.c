/*
 * The driver pins a page once, and counts no users: tables over one array, or over parts of it, would end each other's.
 * So they are counted here. A part that reaches out of what is pinned is refused, as the driver would.
 *
 * Pinning a large table takes seconds, and so does its end. The driver is called without the lock; the entry in the
 * list is `busy` then, and tables over the same pages wait for it, no others.
 */
#include "device/pin.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/error.h"
#include "device/card.h"
#include "leat/device.h"

#define PAGE 4096 /* bytes, the least that a system has */

struct leat_pin {
    const uint8_t *data;
    uint64_t bytes, users;
    bool busy;
    struct leat_pin *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* an entry is no longer busy, or is gone */
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

/* Takes a busy entry off the list. */
static void drop(struct leat_pin *pin)
{
    struct leat_pin **at = &pins;
    while (*at != pin)
        at = &(*at)->next;
    *at = pin->next;
    leat_free(pin);
}

/* Whether all of this memory is of one allocation that somebody else has pinned. */
static bool is_pinned(const struct leat_cuda *cuda, leat_cu_memory at, uint64_t bytes)
{
    leat_cu_memory begin = 0;
    size_t size = 0;
    return !cuda->cuPointerGetAttribute(&begin, LEAT_CU_POINTER_RANGE_START, at) &&
           !cuda->cuPointerGetAttribute(&size, LEAT_CU_POINTER_RANGE_SIZE, at) && at >= begin && at - begin <= size &&
           bytes <= size - (at - begin);
}

/* Whether the memory is pinned now, by this call (*mine) or before it; and its place. */
static bool pin(const struct leat_cuda *cuda, void *data, uint64_t bytes, bool *mine, leat_cu_memory *at)
{
    const unsigned flags = LEAT_CU_HOST_PORTABLE | LEAT_CU_HOST_MAPPED;
    leat_cu_memory last;
    leat_cu_result code = cuda->cuMemHostRegister_v2(data, bytes, flags);
    /* Memory that cuMemHostAlloc gave is an invalid value to some drivers. */
    const bool pinned = code == LEAT_CU_ALREADY_REGISTERED || code == LEAT_CU_INVALID_VALUE;
    if (code && code != LEAT_CU_ALREADY_REGISTERED) /* or memory that may not be written to: */
        code = cuda->cuMemHostRegister_v2(data, bytes, flags | LEAT_CU_HOST_READ_ONLY);
    *mine = !code;
    const bool good = (*mine || pinned) && !cuda->cuMemHostGetDevicePointer_v2(at, data, 0) &&
                      !cuda->cuMemHostGetDevicePointer_v2(&last, (uint8_t *)data + bytes - 1, 0) &&
                      last - *at == bytes - 1 && (*mine || is_pinned(cuda, *at, bytes));
    if (*mine && !good)
        cuda->cuMemHostUnregister(data);
    return good;
}

bool leat_pin_take(const struct leat_cuda *cuda, const void *data, uint64_t bytes, struct leat_pin **out,
                   leat_cu_memory *at)
{
    const uint8_t *begin = data;
    void *p = (void *)(uintptr_t)data;
    *out = NULL;
    struct leat_pin *made = leat_new(struct leat_pin), *known;
    if (!made)
        return false;
    pthread_mutex_lock(&mutex);
    while ((known = find(begin, bytes)) && known->busy)
        pthread_cond_wait(&changed, &mutex);
    bool good = known && begin >= known->data && begin + bytes <= known->data + known->bytes &&
                !cuda->cuMemHostGetDevicePointer_v2(at, p, 0);
    if (good)
        (*out = known)->users++;
    if (known) {
        leat_free(made);
    } else {
        bool mine;
        *made = (struct leat_pin){.data = data, .bytes = bytes, .users = 1, .busy = true, .next = pins};
        pins = made;
        pthread_mutex_unlock(&mutex);
        good = pin(cuda, p, bytes, &mine, at);
        pthread_mutex_lock(&mutex);
        made->busy = false;
        if (good && mine)
            *out = made;
        else
            drop(made);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&mutex);
    return good;
}

void leat_pin_give(const struct leat_cuda *cuda, struct leat_pin *pin)
{
    pthread_mutex_lock(&mutex);
    if (pin && !--pin->users) {
        pin->busy = true;
        pthread_mutex_unlock(&mutex);
        cuda->cuMemHostUnregister((void *)(uintptr_t)pin->data);
        pthread_mutex_lock(&mutex);
        drop(pin);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&mutex);
}

/* ---- memory of loaders ---------------------------------------------------------------------- */

static int pin_region(void *user, void *memory, uint64_t bytes, struct leat_error *error)
{
    struct leat_card *card = user;
    int rc = leat_card_enter(card, error);
    if (rc)
        return rc;
    const leat_cu_result code = card->cuda->cuMemHostRegister_v2(memory, bytes, LEAT_CU_HOST_PORTABLE);
    leat_card_leave(card);
    return code ? leat_cuda_fail_pinning(card->cuda, code, bytes, error) : LEAT_OK;
}

static void unpin_region(void *user, void *memory)
{
    struct leat_card *card = user;
    if (leat_card_enter(card, NULL))
        return;
    card->cuda->cuMemHostUnregister(memory);
    leat_card_leave(card);
}

int leat_device_pinning(int device, const struct leat_pinning **out, struct leat_error *error)
{
    static struct leat_pinning all[LEAT_CARDS];
    struct leat_card *card;
    *out = NULL;
    int rc = leat_card_open(device, &card, error);
    if (rc)
        return rc;
    all[device] = (struct leat_pinning){card, pin_region, unpin_region}; /* the same whoever writes it */
    *out = &all[device];
    return LEAT_OK;
}
