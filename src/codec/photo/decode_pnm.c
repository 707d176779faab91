/*
 * PNM: bitmaps, grays and colours (P1 to P6), in text or in bytes, to 16 bits a sample.
 *
 *     "P6", width, height, largest value (but for bitmaps), each behind white space or comments (# to the end of line)
 *     P1 to P3: numbers in text; P4: bits, rows of whole bytes, 1 is black; P5, P6: bytes, two if the largest is above
 * 255
 */
#include "base/error.h"
#include "codec/photo/decode_whole.h"

struct pnm {
    unsigned type; /* 1 to 6 */
    uint32_t width, height, most;
    size_t at; /* the start of the samples */
};

static int broken(struct leat_bytes file, size_t at, const char *words, struct leat_error *error)
{
    return leat_decode_fail(error, "PNM", (int64_t)at, file.n, words);
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_space(struct leat_bytes file, size_t *at)
{
    while (*at < file.n && (is_space(file.p[*at]) || file.p[*at] == '#')) {
        if (file.p[*at] == '#')
            while (*at < file.n && file.p[*at] != '\n' && file.p[*at] != '\r')
                ++*at;
        else
            ++*at;
    }
}

/* A number of at most `most`, at `*at` behind white space. */
static bool next_number(struct leat_bytes file, size_t *at, uint32_t most, uint32_t *value)
{
    skip_space(file, at);
    size_t begin = *at;
    for (*value = 0; *at < file.n && file.p[*at] >= '0' && file.p[*at] <= '9'; ++*at) {
        uint64_t v = (uint64_t)*value * 10 + (file.p[*at] - '0');
        if (v > most)
            return false;
        *value = (uint32_t)v;
    }
    return *at > begin;
}

static unsigned samples_of(const struct pnm *p)
{
    return p->type == 3 || p->type == 6 ? 3 : 1;
}

static int read_header(struct leat_bytes file, struct pnm *p, struct leat_error *error)
{
    *p = (struct pnm){.type = file.p[1] - '0', .most = 1, .at = 2};
    bool bits = p->type == 1 || p->type == 4;
    if (!next_number(file, &p->at, UINT32_MAX, &p->width) || !next_number(file, &p->at, UINT32_MAX, &p->height) ||
        (!bits && (!next_number(file, &p->at, 65535, &p->most) || !p->most)))
        return broken(file, p->at, "the header lacks a number, or has one that is too large", error);
    if (p->at >= file.n || !is_space(file.p[p->at]))
        return broken(file, p->at, "no white space behind the header", error);
    p->at++;
    return LEAT_OK;
}

static uint64_t row_bytes(const struct pnm *p)
{
    return p->type == 4 ? ((uint64_t)p->width + 7) / 8 : (uint64_t)p->width * samples_of(p) * (p->most > 255 ? 2 : 1);
}

static int header(struct leat_bytes file, uint32_t frame, struct leat_whole_header *header, struct leat_error *error)
{
    struct pnm p;
    int rc = read_header(file, &p, error);
    rc = rc ? rc : leat_decode_check_size("PNM", p.width, p.height, error);
    if (rc)
        return rc;
    /* in text a sample has a digit, and except in bitmaps a space; the last space may be missing */
    uint64_t needs = p.type >= 4   ? row_bytes(&p) * p.height
                     : p.type == 1 ? (uint64_t)p.width * p.height
                                   : (uint64_t)p.width * p.height * samples_of(&p) * 2 - 1;
    if (needs > file.n - p.at)
        return broken(file, file.n, "the file ends before the photo does", error);
    header->width = p.width;
    header->height = p.height;
    header->channels = (uint8_t)samples_of(&p);
    header->kind = LEAT_IMAGE_PNM;
    header->deep = p.most > 255;
    return LEAT_OK;
}

/* Sample i of a row, at `*at`; false: there is none. */
static bool next_sample(struct leat_bytes file, const struct pnm *p, uint64_t i, size_t *at, uint32_t *value)
{
    switch (p->type) {
    case 1: /* digits need no space between them */
        skip_space(file, at);
        if (*at >= file.n || (file.p[*at] != '0' && file.p[*at] != '1'))
            return false;
        *value = file.p[(*at)++] == '0';
        return true;
    case 4:
        *value = !(file.p[*at + i / 8] >> (7 - i % 8) & 1);
        return true;
    case 2:
    case 3:
        return next_number(file, at, p->most, value);
    default:
        *value = leat_bytes_number(file.p + *at + i * (p->most > 255 ? 2 : 1), p->most > 255 ? 2 : 1, true);
        *value = *value > p->most ? p->most : *value;
        return true;
    }
}

static int decode(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *found,
                  const struct leat_whole_image *image, struct leat_error *error)
{
    struct pnm p;
    int rc = read_header(file, &p, error);
    if (rc)
        return rc;
    const unsigned samples = samples_of(&p);
    const uint64_t full = image->wide ? 65535 : 255;
    size_t at = p.at;
    for (uint32_t y = 0; y < p.height; y++) {
        uint8_t *line = image->pixels + y * image->stride;
        for (uint64_t x = 0; x < p.width; x++) {
            uint16_t v[4] = {0, 0, 0, (uint16_t)full};
            for (unsigned c = 0; c < samples; c++) {
                uint32_t value;
                if (!next_sample(file, &p, x * samples + c, &at, &value))
                    return broken(file, at, "no number where a sample should be, or one above the largest", error);
                v[c] = (uint16_t)((value * full * 2 + p.most) / (2 * (uint64_t)p.most)); /* rounded */
            }
            if (samples == 1)
                v[1] = v[2] = v[0];
            if (image->wide)
                memcpy(line + x * 8, v, 8);
            else
                leat_whole_put(line + x * 4, v[0], v[1], v[2], v[3]);
        }
        if (p.type >= 4)
            at += (size_t)row_bytes(&p);
    }
    return LEAT_OK;
}

static bool recognise(struct leat_bytes file)
{
    return file.n > 2 && file.p[0] == 'P' && file.p[1] >= '1' && file.p[1] <= '6' &&
           (is_space(file.p[2]) || file.p[2] == '#');
}

LEAT_WHOLE_BACKEND(pnm, "PNM", recognise, false, NULL, NULL);
