/*
 * The markers of a JPEG, walked from scan to scan. The walk knows the inputs of the entropy-coded bytes of the scan, so
 * it serves a whole file, whose entropy-coded bytes the caller steps over, and a skeleton (coefficients.h), which has
 * none.
 */
#ifndef LEAT_CODEC_JPEG_MARKERS_H
#define LEAT_CODEC_JPEG_MARKERS_H

#include "codec/jpeg/frame.h"

/* More scans than any encoder writes, and scans times blocks of a grid: the limit of the cost of hostile bytes. */
#define LEAT_JPEG_MAX_SCANS 500
#define LEAT_JPEG_MAX_SCAN_BLOCKS (UINT64_C(1) << 29)
/* Pixels times scans: the limit of the cost of a hostile progressive photo. One of LEAT_MAX_PIXELS may have 32
 * scans. */
#define LEAT_JPEG_MAX_SCAN_PIXELS (UINT64_C(1) << 33)

/* A Huffman table as DHT has it: the number of codes of each length, and the symbols in the order of their codes. */
struct leat_jpeg_symbols {
    bool set;
    uint8_t count[17], symbol[256];
};

struct leat_jpeg_scan {
    uint8_t n;                                                          /* components */
    uint8_t component[LEAT_JPEG_MAX_COMPONENTS];                        /* their places in the frame */
    uint8_t dc[LEAT_JPEG_MAX_COMPONENTS], ac[LEAT_JPEG_MAX_COMPONENTS]; /* their tables */
    uint8_t ss, se, ah, al;
};

struct leat_jpeg_walk {
    const uint8_t *data;
    size_t length, at; /* `at`: the next byte */
    bool has_frame, progressive, arithmetic;
    uint8_t id[LEAT_JPEG_MAX_COMPONENTS];
    uint32_t restart; /* MCUs between restart markers, 0: none */
    struct leat_jpeg_symbols dc[4], ac[4];
    uint8_t arith_dc[16], arith_ac[16]; /* conditioning, as DAC has it */
    struct leat_jpeg_scan scan;
    unsigned scans; /* met so far */
};

enum leat_jpeg_met {
    LEAT_JPEG_MET_SCAN, /* `scan` is filled; its entropy-coded bytes begin at `at`, in a file */
    LEAT_JPEG_MET_END,  /* `at` is behind the end marker */
    LEAT_JPEG_MET_NONSENSE
};

void leat_jpeg_walk_begin(struct leat_jpeg_walk *walk, const void *data, size_t length);
/* Goes on to the next scan or to the end. Sizes and factors must be those of `frame`. */
enum leat_jpeg_met leat_jpeg_walk_next(struct leat_jpeg_walk *walk, const struct leat_jpeg_frame *frame);

/* Steps over the entropy-coded bytes of a scan, to the marker behind them. *ones becomes whether any of its parts
 * between restart markers ends in a bit that is 1: encoders fill the last byte with ones, a few with zeros. False: the
 * file ends first. */
bool leat_jpeg_walk_over(struct leat_jpeg_walk *walk, bool *ones);

#endif
