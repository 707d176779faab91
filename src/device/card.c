/*
 * Opening a card takes its primary context: the one that PyTorch and other users of the runtime share in a process, so
 * that their tensors and streams are ours too. Kernels are compiled when they are first needed, and kept: their number
 * is small.
 */
#include "device/card.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct leat_card *cards[LEAT_CARDS];

static int open_card(struct leat_card *card, struct leat_error *error)
{
    const struct leat_cuda *cuda = card->cuda;
    leat_cu_device device;
    int count = 0;
    leat_cu_result code = cuda->cuDeviceGetCount(&count);
    if (!code && !count)
        code = LEAT_CU_NO_DEVICE;
    if (code)
        return leat_cuda_fail(cuda, code, "no card can be used", error);
    if (card->ordinal >= count)
        return leat_fail(error, LEAT_E_RANGE, "there is no card %d: CUDA shows %d", card->ordinal, count);
    if ((code = cuda->cuDeviceGet(&device, card->ordinal)) ||
        (code = cuda->cuDeviceGetName(card->name, sizeof card->name, device)) ||
        (code = cuda->cuDeviceGetUuid_v2(card->uuid, device)) ||
        (code = cuda->cuDeviceGetAttribute(&card->major, LEAT_CU_ATTRIBUTE_MAJOR, device)) ||
        (code = cuda->cuDeviceGetAttribute(&card->minor, LEAT_CU_ATTRIBUTE_MINOR, device)) ||
        (code = cuda->cuDevicePrimaryCtxRetain(&card->context, device))) {
        char what[64];
        snprintf(what, sizeof what, "card %d cannot be opened", card->ordinal);
        return leat_cuda_fail(cuda, code, what, error);
    }
    return LEAT_OK;
}

int leat_card_open(int ordinal, struct leat_card **out, struct leat_error *error)
{
    const struct leat_cuda *cuda;
    int rc = LEAT_OK;
    *out = NULL;
    if (ordinal < 0 || ordinal >= LEAT_CARDS)
        return leat_fail(error, LEAT_E_RANGE, "there is no card %d", ordinal);
    if ((rc = leat_cuda_get(&cuda, error)))
        return rc;
    pthread_mutex_lock(&mutex);
    struct leat_card *card = cards[ordinal];
    if (!card && !(card = leat_new(struct leat_card)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open card %d", ordinal);
    if (!rc && !cards[ordinal]) {
        card->cuda = cuda;
        card->ordinal = ordinal;
        pthread_mutex_init(&card->mutex, NULL);
        if ((rc = open_card(card, error))) {
            pthread_mutex_destroy(&card->mutex);
            leat_free(card);
        } else {
            cards[ordinal] = card;
        }
    }
    pthread_mutex_unlock(&mutex);
    if (!rc)
        *out = card;
    return rc;
}

/* While a program captures a graph, in whatever thread, calls of others that could disturb it are refused; those here
 * are beside it, in streams of their own. So they are allowed meanwhile, by the thread's mode. */
static _Thread_local int entered, mode_before;

int leat_card_enter(struct leat_card *card, struct leat_error *error)
{
    const int rc = leat_cuda_here(error);
    if (rc)
        return rc;
    const leat_cu_result code = card->cuda->cuCtxPushCurrent_v2(card->context);
    if (code)
        return leat_cuda_fail(card->cuda, code, "the card cannot be used", error);
    int mode = LEAT_CU_CAPTURE_RELAXED;
    card->cuda->cuThreadExchangeStreamCaptureMode(&mode);
    if (!entered++)
        mode_before = mode;
    return LEAT_OK;
}

void leat_card_leave(struct leat_card *card)
{
    leat_cu_handle before;
    if (!--entered)
        card->cuda->cuThreadExchangeStreamCaptureMode(&mode_before);
    card->cuda->cuCtxPopCurrent_v2(&before);
}

static int make_kernel(struct leat_card *card, const char *nvrtc, struct leat_card_kernel *kernel,
                       struct leat_error *error)
{
    const struct leat_kernel_source *source = kernel->source;
    char texts[LEAT_KERNEL_DEFINES][64], what[160];
    const char *defines[LEAT_KERNEL_DEFINES];
    void *image;
    size_t bytes;
    leat_cu_handle module = NULL;
    int n = 0;
    for (; n < LEAT_KERNEL_DEFINES && source->defines[n]; n++) {
        snprintf(texts[n], sizeof texts[n], "-D%s=%u", source->defines[n], kernel->values[n]);
        defines[n] = texts[n];
    }
    int rc = leat_nvrtc_compile(nvrtc, source, card->major, card->minor, defines, n, &image, &bytes, NULL, error);
    if (rc)
        return rc;
    leat_cu_result code = card->cuda->cuModuleLoadData(&module, image);
    if (!code && (code = card->cuda->cuModuleGetFunction(&kernel->function, module, source->function)))
        card->cuda->cuModuleUnload(module);
    leat_free(image);
    snprintf(what, sizeof what, "%s of the driver of CUDA %d.%d takes no kernel", card->name,
             card->cuda->version / 1000, card->cuda->version % 1000 / 10);
    return code ? leat_cuda_fail(card->cuda, code, what, error) : LEAT_OK;
}

int leat_card_kernel(struct leat_card *card, const char *nvrtc, const struct leat_kernel_source *source,
                     const unsigned values[LEAT_KERNEL_DEFINES], leat_cu_handle *function, struct leat_error *error)
{
    int rc = LEAT_OK;
    unsigned i = 0;
    pthread_mutex_lock(&card->mutex);
    while (i < card->n_kernels && (card->kernels[i].source != source ||
                                   memcmp(card->kernels[i].values, values, sizeof card->kernels[i].values)))
        i++;
    if (i == LEAT_CARD_KERNELS) {
        rc = leat_fail(error, LEAT_E_NOMEM, "more than %d variants of kernels are in use", LEAT_CARD_KERNELS);
    } else if (i == card->n_kernels) {
        card->kernels[i].source = source;
        memcpy(card->kernels[i].values, values, sizeof card->kernels[i].values);
        rc = make_kernel(card, nvrtc, &card->kernels[i], error);
        card->n_kernels += !rc;
    }
    *function = rc ? NULL : card->kernels[i].function;
    pthread_mutex_unlock(&card->mutex);
    return rc;
}

leat_cu_result leat_card_launch(const struct leat_card *card, leat_cu_handle function, uint64_t blocks,
                                unsigned threads, void *args, leat_cu_handle stream)
{
    return card->cuda->cuLaunchKernel(function, (unsigned)blocks, 1, 1, threads, 1, 1, 0, stream, (void *[]){args},
                                      NULL);
}
