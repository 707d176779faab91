/*
 * Is this photo whole? The decoder, with nothing between its beginning and its end.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "op/decode.h"
#include "op/program.h"

struct leat_photo_checker {
    struct leat_decoder *decoder;
};

struct leat_photo_checker *leat_photo_checker_new(void)
{
    struct leat_photo_checker *checker = leat_new(struct leat_photo_checker);
    if (!checker)
        return NULL;
    checker->decoder = leat_decoder_new();
    if (!checker->decoder) {
        leat_free(checker);
        return NULL;
    }
    return checker;
}

void leat_photo_checker_free(struct leat_photo_checker *checker)
{
    if (!checker)
        return;
    leat_decoder_free(checker->decoder);
    leat_free(checker);
}

int leat_photo_check(struct leat_photo_checker *checker, const void *data, size_t length, struct leat_error *error)
{
    struct leat_decode_request request = {.data = data, .length = length, .scan_to_end = true};
    uint32_t width, height;
    int rc = leat_decoder_open(checker->decoder, &request, &width, &height, error);
    return rc ? rc : leat_decoder_end(checker->decoder, error);
}
