/*
 * Masks of the instances in an image, as polygons or runs: the value of a field with LEAT_ROLE_MASKS. It is made pixels
 * of only on request.
 *
 *     value:     1 | n | n records: bytes | kind | ...        every number a varint, 7 bits a byte, the lowest first
 *     NONE:      nothing: no pixel
 *     CENTS:     polygons | of each: points | x and y of each, in hundredths of a pixel, as differences, zigzag
 *     PIXELS:    polygons | of each: points | x and y of each, float64, in pixels
 *     UNITS:     the same, in units of the image's width and height
 *     RUNS:      height | width | runs | their lengths, of zeros and ones in turn, column by column
 *
 * Pixels are those of the COCO API: the corners of a polygon are rounded to fifths of a pixel, its edges drawn there,
 * and a pixel is inside by the crossings of its column's middle line above it. Several polygons of an instance are
 * joined. (The published algorithm of maskApi, T.-Y. Lin and P. Dollar 2015.)
 */
#ifndef LEAT_CODEC_SHAPES_H
#define LEAT_CODEC_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

enum leat_shape_kind { LEAT_SHAPE_NONE = 0, LEAT_SHAPE_CENTS, LEAT_SHAPE_PIXELS, LEAT_SHAPE_UNITS, LEAT_SHAPE_RUNS };

/* Bytes that grow. */
struct leat_shape_bytes {
    uint8_t *data; /* freed with leat_free */
    size_t n, room;
};

/* Append a record; false: no memory. xy: the corners of all polygons; ends[p]: the number of points of polygons 0..p
 * together. Hundredths are used if they lose nothing. */
bool leat_shapes_put_none(struct leat_shape_bytes *to);
bool leat_shapes_put_polygons(struct leat_shape_bytes *to, const double *xy, const uint32_t *ends, size_t n_polygons,
                              bool units);
bool leat_shapes_put_runs(struct leat_shape_bytes *to, uint32_t h, uint32_t w, const uint32_t *runs, size_t n);
/* Appends the head of a value of n records, which follow. */
bool leat_shapes_put_head(struct leat_shape_bytes *to, uint64_t n);

/* The error of polygons or runs, before they are put; NULL: none. A polygon has at least three points, whose
 * coordinates lie within 2^20. Runs fill the image. */
const char *leat_shapes_polygon_fault(const double *xy, size_t n_points, double w, double h);
const char *leat_shapes_runs_fault(const uint32_t *runs, size_t n, uint64_t h, uint64_t w);
/* The runs of the COCO API's text, at most `room`; SIZE_MAX: it is damaged. */
size_t leat_shapes_runs_of_text(const char *text, size_t length, uint32_t *runs, size_t room);

/* The records of a value, one after the other. */
struct leat_shapes {
    const uint8_t *at, *end;
    uint64_t n;       /* of them */
    uint64_t crossed; /* columns, by the edges of those that were drawn: there is a limit */
};
/* DECODE: the value is damaged. Records that are left are checked by drawing them. */
int leat_shapes_open(const void *value, size_t length, struct leat_shapes *out, struct leat_error *error);
/* The next record. DECODE. */
int leat_shapes_next(struct leat_shapes *shapes, const uint8_t **record, size_t *length, struct leat_error *error);
/* Draws a record: pixels[y * w + x] becomes 1 inside, else 0. DECODE: it is damaged, or of an image of another size, or
 * takes far more work than any real one; NOMEM. */
int leat_shapes_draw(struct leat_shapes *shapes, const uint8_t *record, size_t length, uint32_t w, uint32_t h,
                     uint8_t *pixels, struct leat_error *error);

#endif
