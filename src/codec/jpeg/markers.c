/*
 * Walking markers as libjpeg does. It is strict: only markers may stand between two segments, lengths must fit, and no
 * definition may be one that libjpeg would refuse. A skeleton may be hostile. A file has been read by libjpeg or by
 * huffman.h before it comes here: strictness costs the fast form of the few that have a marker which libjpeg reads over
 * (DNL), or two components of one name.
 */
#include "codec/jpeg/markers.h"

#include <string.h>

enum {
    TEM = 0x01,
    SOF0 = 0xc0,
    SOF1 = 0xc1,
    SOF2 = 0xc2,
    DHT = 0xc4,
    SOF9 = 0xc9,
    SOF10 = 0xca,
    DAC = 0xcc,
    RST0 = 0xd0,
    RST7 = 0xd7,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    DQT = 0xdb,
    DRI = 0xdd,
    APP0 = 0xe0,
    COM = 0xfe
};

void leat_jpeg_walk_begin(struct leat_jpeg_walk *walk, const void *data, size_t length)
{
    memset(walk, 0, sizeof *walk);
    walk->data = data;
    walk->length = length;
    memset(walk->arith_dc, 0x10, sizeof walk->arith_dc); /* L = 0, U = 1 */
    memset(walk->arith_ac, 5, sizeof walk->arith_ac);
}

static bool read_frame(struct leat_jpeg_walk *walk, const struct leat_jpeg_frame *frame, const uint8_t *p, size_t n)
{
    if (walk->has_frame || n < 6 || p[0] != 8 || (p[1] << 8 | p[2]) != (int)frame->height ||
        (p[3] << 8 | p[4]) != (int)frame->width || p[5] != frame->n_components || n != 6 + 3 * (size_t)p[5])
        return false;
    for (unsigned c = 0; c < frame->n_components; c++) {
        const uint8_t *q = p + 6 + 3 * c;
        walk->id[c] = q[0];
        if (frame->n_components > 1 && q[1] != (frame->component[c].h << 4 | frame->component[c].v))
            return false;
    }
    return walk->has_frame = true;
}

static bool read_symbols(struct leat_jpeg_walk *walk, const uint8_t *p, size_t n)
{
    while (n) {
        if (n < 17 || (p[0] & 0xef) > 3)
            return false;
        struct leat_jpeg_symbols *to = p[0] & 0x10 ? &walk->ac[p[0] & 3] : &walk->dc[p[0] & 3];
        size_t count = 0;
        for (unsigned i = 1; i <= 16; i++)
            count += p[i];
        if (count > 256 || n - 17 < count)
            return false;
        memset(to, 0, sizeof *to);
        to->set = true;
        memcpy(to->count + 1, p + 1, 16);
        memcpy(to->symbol, p + 17, count);
        p += 17 + count;
        n -= 17 + count;
    }
    return true;
}

static bool read_conditioning(struct leat_jpeg_walk *walk, const uint8_t *p, size_t n)
{
    for (; n >= 2; p += 2, n -= 2) {
        if (p[0] >= 32)
            return false;
        if (p[0] >= 16)
            walk->arith_ac[p[0] - 16] = p[1];
        else if ((p[1] & 15) > p[1] >> 4)
            return false;
        else
            walk->arith_dc[p[0]] = p[1];
    }
    return !n;
}

static bool read_scan(struct leat_jpeg_walk *walk, const struct leat_jpeg_frame *frame, const uint8_t *p, size_t n)
{
    struct leat_jpeg_scan *scan = &walk->scan;
    if (!walk->has_frame || n < 1 || p[0] < 1 || p[0] > frame->n_components || n != 4 + 2 * (size_t)p[0])
        return false;
    scan->n = p[0];
    unsigned blocks = 0, taken = 0;
    for (unsigned i = 0; i < scan->n; i++) {
        unsigned c = 0;
        while (c < frame->n_components && (walk->id[c] != p[1 + 2 * i] || taken >> c & 1))
            c++;
        if (c == frame->n_components)
            return false;
        taken |= 1u << c;
        scan->component[i] = (uint8_t)c;
        scan->dc[i] = p[2 + 2 * i] >> 4;
        scan->ac[i] = p[2 + 2 * i] & 15;
        blocks += (unsigned)frame->component[c].h * frame->component[c].v;
    }
    const uint8_t *q = p + 1 + 2 * scan->n;
    scan->ss = q[0];
    scan->se = q[1];
    scan->ah = q[2] >> 4;
    scan->al = q[2] & 15;
    if (scan->n > 1 && blocks > LEAT_JPEG_MCU_BLOCKS)
        return false;
    if (!walk->progressive)
        return true; /* whatever these say: libjpeg reads all coefficients and warns */
    if (scan->ss ? scan->n > 1 || scan->se > 63 || scan->se < scan->ss : scan->se)
        return false;
    return scan->al <= 13 && (!scan->ah || scan->ah == scan->al + 1);
}

static bool grid_is_paid(const struct leat_jpeg_walk *walk, const struct leat_jpeg_frame *frame)
{
    uint64_t blocks = 0;
    for (unsigned c = 0; c < frame->n_components; c++)
        blocks += (uint64_t)frame->component[c].blocks_w * frame->component[c].blocks_h;
    return walk->scans <= 16 ||
           (walk->scans <= LEAT_JPEG_MAX_SCANS && walk->scans * blocks <= LEAT_JPEG_MAX_SCAN_BLOCKS);
}

enum leat_jpeg_met leat_jpeg_walk_next(struct leat_jpeg_walk *walk, const struct leat_jpeg_frame *frame)
{
    const uint8_t *d = walk->data;
    if (!walk->at) {
        if (walk->length < 2 || d[0] != 0xff || d[1] != SOI)
            return LEAT_JPEG_MET_NONSENSE;
        walk->at = 2;
    }
    for (;;) {
        if (walk->at >= walk->length || d[walk->at] != 0xff)
            return LEAT_JPEG_MET_NONSENSE;
        while (walk->at < walk->length && d[walk->at] == 0xff) /* any number of them may stand before a marker */
            walk->at++;
        if (walk->at >= walk->length)
            return LEAT_JPEG_MET_NONSENSE;
        uint8_t marker = d[walk->at++];
        if (marker == EOI)
            return LEAT_JPEG_MET_END;
        if (marker == TEM || (marker >= RST0 && marker <= RST7))
            continue;
        if (walk->length - walk->at < 2)
            return LEAT_JPEG_MET_NONSENSE;
        size_t n = (size_t)d[walk->at] << 8 | d[walk->at + 1];
        if (n < 2 || n > walk->length - walk->at)
            return LEAT_JPEG_MET_NONSENSE;
        const uint8_t *p = d + walk->at + 2;
        walk->at += n;
        n -= 2;
        bool good = true;
        switch (marker) {
        case SOF0:
        case SOF1:
        case SOF2:
        case SOF9:
        case SOF10:
            walk->arithmetic = marker >= SOF9;
            walk->progressive = marker == SOF2 || marker == SOF10;
            good = read_frame(walk, frame, p, n);
            break;
        case DHT:
            good = read_symbols(walk, p, n);
            break;
        case DAC:
            good = read_conditioning(walk, p, n);
            break;
        case DRI:
            good = n == 2;
            walk->restart = good ? (uint32_t)(p[0] << 8 | p[1]) : 0;
            break;
        case SOS:
            walk->scans++;
            if (!read_scan(walk, frame, p, n) || !grid_is_paid(walk, frame))
                return LEAT_JPEG_MET_NONSENSE;
            return LEAT_JPEG_MET_SCAN;
        default: /* tables of quantisation, comments, applications; anything else libjpeg refuses */
            good = marker == DQT || marker >= APP0;
        }
        if (!good)
            return LEAT_JPEG_MET_NONSENSE;
    }
}

bool leat_jpeg_walk_over(struct leat_jpeg_walk *walk, bool *ones)
{
    const uint8_t *begin = walk->data + walk->at, *p = begin, *end = walk->data + walk->length;
    bool any = false;
    for (;;) {
        p = memchr(p, 0xff, (size_t)(end - p));
        if (!p || end - p < 2)
            return false;
        if (p[1] == 0) { /* a data byte */
            p += 2;
            continue;
        }
        if (p > begin) {
            bool stuffed = p[-1] == 0 && p - begin >= 2 && p[-2] == 0xff;
            any |= stuffed || (p[-1] & 1);
        }
        if (p[1] < RST0 || p[1] > RST7)
            break;
        p += 2;
        begin = p;
    }
    walk->at = (size_t)(p - walk->data);
    *ones = any;
    return true;
}
