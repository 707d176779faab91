/*
 * Boxes beside the images they lie in. A file whose boxes have another format than the stated one reads without a
 * fault: xyxy taken for xywh is boxes that reach far out. So each box is tried in every format, and the counts tell
 * which of them the boxes would fit.
 *
 * Annotations are often rounded outwards, by a pixel at most, so a box that reaches out no farther lies in its image.
 * If the pixels are not known, a hundredth of the image's side takes the place of one.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/role.h"

enum { LIKELY = 95 };      /* of a hundred boxes must fit a format that is named */
enum { FEW = 5 };          /* boxes that do not fit are no reason for a warning, */
enum { SMALL_SHARE = 20 }; /* nor is less than one in so many */

enum fit { NOT_FINITE, EMPTY, OUTSIDE, CUT, INSIDE };

struct canvas {
    double w, h, slack_x, slack_y;
};

/* Boxes that are normalized lie in an image of 1 x 1. Unbounded: for pixels that are not known. */
static struct canvas canvas_of(bool normalized, double width, double height)
{
    const bool known = width > 0 && height > 0;
    if (normalized)
        return (struct canvas){1, 1, known ? 1 / width : 0.01, known ? 1 / height : 0.01};
    return known ? (struct canvas){width, height, 1, 1} : (struct canvas){(double)INFINITY, (double)INFINITY, 1, 1};
}

static void corners_of(enum leat_role role, const float b[4], double c[4])
{
    const double half = role == LEAT_ROLE_BOXES_CXCYWH ? 0.5 : 0;
    for (int i = 0; i < 4; i++)
        c[i] = (double)b[i];
    for (int i = 0; i < 2 && role != LEAT_ROLE_BOXES_XYXY; i++) {
        c[i] -= half * (double)b[2 + i];
        c[2 + i] += c[i];
    }
}

static enum fit try(enum leat_role role, const float b[4], struct canvas in)
{
    double c[4];
    corners_of(role, b, c);
    if (!isfinite(c[0]) || !isfinite(c[1]) || !isfinite(c[2]) || !isfinite(c[3]))
        return NOT_FINITE;
    if (c[2] <= c[0] || c[3] <= c[1])
        return EMPTY;
    if (c[0] >= in.w || c[1] >= in.h || c[2] <= 0 || c[3] <= 0)
        return OUTSIDE;
    const double rounding = 1e-4; /* of 32-bit numbers, in parts of the allowance */
    const double x = in.slack_x * (1 + rounding), y = in.slack_y * (1 + rounding);
    return c[0] < -x || c[1] < -y || c[2] > in.w + x || c[3] > in.h + y ? CUT : INSIDE;
}

/* Whether no number is beyond an image of 1 x 1. */
static bool within_unit(const float b[4])
{
    bool within = true;
    for (int i = 0; i < 4; i++)
        within &= b[i] >= -0.01f && b[i] <= 1.01f;
    return within;
}

bool leat_box_counts_add(struct leat_box_counts *n, const struct leat_field *field, const float b[4], double width,
                         double height)
{
    const enum fit fit = try(field->role, b, canvas_of(field->normalized, width, height));
    n->count++;
    n->not_finite += fit == NOT_FINITE;
    n->empty += fit == EMPTY;
    n->outside += fit == OUTSIDE;
    n->cut += fit == CUT;
    if (fit == NOT_FINITE)
        return false;
    const bool unit = within_unit(b), known = width > 0 && height > 0;
    for (int r = 0; r < 3; r++) {
        const enum leat_role role = LEAT_ROLE_BOXES_XYXY + (enum leat_role)r;
        n->fits[r] += !unit && try(role, b, canvas_of(false, width, height)) == INSIDE;
        n->fits_normalized[r] += unit && try(role, b, canvas_of(true, width, height)) == INSIDE;
    }
    n->fits_turned += known && !field->normalized && try(field->role, b, canvas_of(false, height, width)) == INSIDE;
    n->in_unit += unit;
    if (fit > EMPTY && (known || !field->normalized)) {
        double c[4];
        corners_of(field->role, b, c);
        n->tiny +=
            (c[2] - c[0]) * (field->normalized ? width : 1) < 1 || (c[3] - c[1]) * (field->normalized ? height : 1) < 1;
    }
    return fit == INSIDE;
}

void leat_box_counts_join(struct leat_box_counts *to, const struct leat_box_counts *from)
{
    to->count += from->count;
    to->not_finite += from->not_finite;
    to->empty += from->empty;
    to->outside += from->outside;
    to->cut += from->cut;
    to->tiny += from->tiny;
    to->in_unit += from->in_unit;
    to->fits_turned += from->fits_turned;
    for (int r = 0; r < 3; r++) {
        to->fits[r] += from->fits[r];
        to->fits_normalized[r] += from->fits_normalized[r];
    }
}

static bool most(uint64_t part, uint64_t all, unsigned of_a_hundred)
{
    return (double)part * 100 >= (double)all * of_a_hundred;
}

/* The format that nearly all boxes fit, which is not the stated one; "": none. */
static const char *likely(const struct leat_box_counts *n, const struct leat_field *field)
{
    static const char *const names[2][3] = {{"are they xyxy?", "are they xywh?", "are they cxcywh?"},
                                            {"are they xyxy in units of the image's width and height (normalized)?",
                                             "are they xywh in units of the image's width and height (normalized)?",
                                             "are they cxcywh in units of the image's width and height (normalized)?"}};
    static const char *const pixels[] = {"are they xyxy in pixels?", "are they xywh in pixels?",
                                         "are they cxcywh in pixels?"};
    const uint64_t all = n->count - n->not_finite, said = field->role - LEAT_ROLE_BOXES_XYXY;
    const char *name = "";
    uint64_t best = 0;
    for (unsigned k = 0; k < 6; k++) {
        const unsigned r = (unsigned)(k / 2 + said) % 3; /* of equals the format that is said */
        const bool normalized = k % 2;
        const uint64_t fits = normalized ? n->fits_normalized[r] : n->fits[r];
        if (fits <= best || (r == said && normalized == field->normalized))
            continue;
        best = fits;
        name = !normalized && field->normalized ? pixels[r] : names[normalized && !field->normalized][r];
    }
    if (most(best, all, LIKELY))
        return name;
    return most(n->fits_turned, all, LIKELY) ? "are the image's width and height exchanged?" : "";
}

bool leat_box_counts_suspect(const struct leat_box_counts *n, const struct leat_field *field, char *out, size_t room)
{
    const uint64_t wrong = n->not_finite + n->empty + n->outside + n->cut;
    const struct {
        uint64_t n;
        const char *what;
    } parts[] = {{n->cut, "reach out of it"},
                 {n->outside, "lie outside of it"},
                 {n->empty, "have no area or are inverted"},
                 {n->not_finite, "are not finite"}};
    const char *hint = likely(n, field);
    size_t used = 0;
    *out = 0;
    if (wrong >= FEW && wrong * SMALL_SHARE > n->count) {
        used = (size_t)snprintf(out, room, "%" PRIu64 " of %" PRIu64 " boxes do not fit their image", wrong, n->count);
        const char *before = " (";
        for (size_t i = 0; i < sizeof parts / sizeof *parts && used < room; i++)
            if (parts[i].n) {
                used +=
                    (size_t)snprintf(out + used, room - used, "%s%" PRIu64 " %s", before, parts[i].n, parts[i].what);
                before = ", ";
            }
        if (used < room)
            snprintf(out + used, room - used, ")%s%s", *hint ? ": " : "", hint);
        return true;
    }
    if (field->normalized || n->in_unit < FEW || !most(n->in_unit, n->count, 50))
        return false;
    snprintf(out, room, "%" PRIu64 " of %" PRIu64 " boxes lie in a single pixel: %s", n->in_unit, n->count,
             *hint ? hint : "are they in units of the image's width and height (normalized)?");
    return true;
}
