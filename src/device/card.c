/*
 * Opening a card takes its primary context: the one that PyTorch and other users of the runtime share in a process, so
 * that their tensors and streams are ours too. Kernels are compiled when they are first needed, and kept: their number
 * is small (a variant for each size of words and type of values).
 */
#include "device/card.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "device/nvrtc.h"

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

int leat_card_enter(struct leat_card *card, struct leat_error *error)
{
    const int rc = leat_cuda_here(error);
    if (rc)
        return rc;
    const leat_cu_result code = card->cuda->cuCtxPushCurrent_v2(card->context);
    return code ? leat_cuda_fail(card->cuda, code, "the card cannot be used", error) : LEAT_OK;
}

void leat_card_leave(struct leat_card *card)
{
    leat_cu_handle before;
    card->cuda->cuCtxPopCurrent_v2(&before);
}

static int make_kernel(struct leat_card *card, const char *nvrtc, struct leat_card_kernel *kernel,
                       struct leat_error *error)
{
    char word[32], from[32], what[160];
    void *image;
    size_t bytes;
    leat_cu_handle module;
    snprintf(word, sizeof word, "-DLEAT_WORD=%u", kernel->word);
    snprintf(from, sizeof from, "-DLEAT_FROM=%u", kernel->from);
    int rc = leat_nvrtc_compile(nvrtc, &leat_kernel_gather_rows, card->major, card->minor, (const char *[]){word, from},
                                2, &image, &bytes, NULL, error);
    if (rc)
        return rc;
    leat_cu_result code = card->cuda->cuModuleLoadData(&module, image);
    if (!code)
        code = card->cuda->cuModuleGetFunction(&kernel->function, module, "leat_gather_rows");
    leat_free(image);
    snprintf(what, sizeof what, "%s of the driver of CUDA %d.%d takes no kernel", card->name,
             card->cuda->version / 1000, card->cuda->version % 1000 / 10);
    return code ? leat_cuda_fail(card->cuda, code, what, error) : LEAT_OK;
}

int leat_card_kernel(struct leat_card *card, const char *nvrtc, unsigned word, unsigned from, leat_cu_handle *function,
                     struct leat_error *error)
{
    int rc = LEAT_OK;
    unsigned i = 0;
    pthread_mutex_lock(&card->mutex);
    while (i < card->n_kernels && (card->kernels[i].word != word || card->kernels[i].from != from))
        i++;
    if (i == card->n_kernels) {
        card->kernels[i] = (struct leat_card_kernel){.word = word, .from = from};
        rc = make_kernel(card, nvrtc, &card->kernels[i], error);
        card->n_kernels += !rc;
    }
    *function = rc ? NULL : card->kernels[i].function;
    pthread_mutex_unlock(&card->mutex);
    return rc;
}
