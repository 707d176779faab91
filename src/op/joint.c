/* Moving the targets of a row: joint.h. */
#include "op/joint.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

/* ---- formats ---- */

static void to_corners(float *b, enum leat_role from)
{
    if (from == LEAT_ROLE_BOXES_CXCYWH) {
        b[0] -= b[2] / 2;
        b[1] -= b[3] / 2;
    }
    if (from != LEAT_ROLE_BOXES_XYXY) {
        b[2] += b[0];
        b[3] += b[1];
    }
}

static void from_corners(float *b, enum leat_role to)
{
    if (to == LEAT_ROLE_BOXES_XYXY)
        return;
    b[2] -= b[0];
    b[3] -= b[1];
    if (to == LEAT_ROLE_BOXES_CXCYWH) {
        b[0] = (b[0] * 2 + b[2]) / 2;
        b[1] = (b[1] * 2 + b[3]) / 2;
    }
}

void leat_boxes_convert(float *boxes, uint64_t n, enum leat_role from, enum leat_role to)
{
    for (uint64_t i = 0; from != to && i < n; i++) {
        to_corners(boxes + 4 * i, from);
        from_corners(boxes + 4 * i, to);
    }
}

static float clamp(float v, float high)
{
    return v < 0 ? 0 : v > high ? high : v;
}

void leat_boxes_clamp(float *boxes, uint64_t n, enum leat_role format, uint32_t w, uint32_t h)
{
    leat_boxes_convert(boxes, n, format, LEAT_ROLE_BOXES_XYXY);
    for (uint64_t i = 0; i < 4 * n; i++)
        boxes[i] = clamp(boxes[i], i & 1 ? (float)h : (float)w);
    leat_boxes_convert(boxes, n, LEAT_ROLE_BOXES_XYXY, format);
}

static float area(const float *box, enum leat_role format)
{
    return format == LEAT_ROLE_BOXES_XYXY ? (box[2] - box[0]) * (box[3] - box[1]) : box[2] * box[3];
}

void leat_targets_clamp(const struct leat_targets *t, struct leat_target_part *boxes, enum leat_role format, uint32_t w,
                        uint32_t h)
{
    if (!t->seen) {
        leat_boxes_clamp(leat_target_boxes(boxes), boxes->n, format, w, h);
        return;
    }
    float *box = leat_target_boxes(boxes), *seen = (float *)(void *)t->seen->data;
    for (uint64_t i = 0; i < boxes->n; i++, box += 4) {
        const float before = area(box, format);
        leat_boxes_clamp(box, 1, format, w, h);
        seen[i] *= before > 0 ? area(box, format) / before : 1;
    }
}

/* ---- the input ---- */

static void scale_boxes(struct leat_target_part *part, float across, float down)
{
    float *v = (float *)(void *)part->data;
    for (uint64_t i = 0; i < 4 * part->n; i++)
        v[i] *= i & 1 ? down : across;
}

/* A box on the edge of its image that was scaled in floats may begin this part of the edge's length beyond it. */
static const float ROUNDED = 1e-5F;

static int check_box(const struct leat_target_part *part, uint64_t i, uint32_t w, uint32_t h, struct leat_error *error)
{
    const float *v = (const float *)(const void *)part->data + 4 * i;
    const char *wrong = NULL;
    const float across = (float)w * ROUNDED, down = (float)h * ROUNDED;
    float b[4];
    memcpy(b, v, sizeof b);
    to_corners(b, part->role);
    if (!isfinite(b[0]) || !isfinite(b[1]) || !isfinite(b[2]) || !isfinite(b[3]))
        wrong = "is not finite: leave the box out";
    else if (b[2] < b[0] || b[3] < b[1])
        wrong = "is inverted: its format may be another one";
    else if (b[0] > (float)w + across || b[1] > (float)h + down || b[2] < -across || b[3] < -down)
        wrong = "lies outside of the image: its format, or normalized=, may be another one";
    if (!wrong)
        return LEAT_OK;
    return leat_fail(error, LEAT_E_DECODE, "box %llu, (%g, %g, %g, %g) in an image of %u x %u, %s",
                     (unsigned long long)i, (double)v[0], (double)v[1], (double)v[2], (double)v[3], w, h, wrong);
}

int leat_targets_begin(struct leat_targets *t, size_t *failed, struct leat_error *error)
{
    for (size_t p = 0; p < t->n; p++) {
        struct leat_target_part *part = &t->parts[p];
        *failed = p;
        if (leat_role_is_boxes(part->role)) {
            if (part->normalized)
                scale_boxes(part, (float)t->w, (float)t->h);
            for (uint64_t i = 0; i < part->n; i++) {
                int rc = check_box(part, i, t->w, t->h, error);
                if (rc)
                    return rc;
            }
        } else if (part->role == LEAT_ROLE_KEYPOINTS) {
            float *v = leat_target_boxes(part);
            for (uint64_t i = 0; i < part->n * part->step / sizeof *v; i += 3) {
                if (isfinite(v[i]) && isfinite(v[i + 1]) && isfinite(v[i + 2]))
                    continue;
                if (v[i + 2] != 0)
                    return leat_fail(error, LEAT_E_DECODE,
                                     "a keypoint of instance %llu is not finite: give it visibility 0",
                                     (unsigned long long)(i / (part->step / sizeof *v)));
                v[i] = v[i + 1] = 0;
            }
        }
    }
    return LEAT_OK;
}

void leat_targets_keep(struct leat_targets *t, const bool *kept)
{
    for (size_t p = 0; p < t->n; p++) {
        struct leat_target_part *part = &t->parts[p];
        uint64_t n = 0;
        for (uint64_t i = 0; part->follows && i < part->n; i++) {
            if (kept[i] && n != i)
                memmove(part->data + n * part->step, part->data + i * part->step, part->step);
            n += kept[i];
        }
        part->n = part->follows ? n : part->n;
    }
}

void leat_targets_end(struct leat_targets *t)
{
    for (size_t p = 0; p < t->n; p++) {
        float *v = (float *)(void *)t->parts[p].data;
        for (uint64_t i = 0; t->parts[p].normalized && i < 4 * t->parts[p].n; i++)
            v[i] /= i & 1 ? (float)t->h : (float)t->w;
    }
}

/* ---- moves ---- */

/* Along one axis, in an image of that side. */
static void mirror_boxes(struct leat_target_part *part, unsigned axis, float side)
{
    for (float *b = leat_target_boxes(part) + axis, *end = b + 4 * part->n; b < end; b += 4) {
        float first = b[0];
        b[0] = side - (part->role == LEAT_ROLE_BOXES_XYXY   ? b[2]
                       : part->role == LEAT_ROLE_BOXES_XYWH ? first + b[2]
                                                            : first);
        if (part->role == LEAT_ROLE_BOXES_XYXY)
            b[2] = side - first;
    }
}

static void move_boxes(const struct leat_targets *t, struct leat_target_part *part, const struct leat_move *m)
{
    float *boxes = (float *)(void *)part->data;
    bool corners = part->role == LEAT_ROLE_BOXES_XYXY;
    if (m->crops) {
        for (uint64_t i = 0; i < part->n; i++)
            for (int k = 0; k < (corners ? 4 : 2); k++)
                boxes[4 * i + (uint64_t)k] -= (float)(k & 1 ? m->y : m->x);
        leat_targets_clamp(t, part, part->role, (uint32_t)m->w, (uint32_t)m->h);
    }
    if (m->out_w != m->w || m->out_h != m->h)
        scale_boxes(part, (float)((double)m->out_w / (double)m->w), (float)((double)m->out_h / (double)m->h));
    if (m->flip)
        mirror_boxes(part, 0, (float)m->out_w);
    if (m->flip_y)
        mirror_boxes(part, 1, (float)m->out_h);
}

/* Whether a point is in an image of w x h, as the pixel is that it is nearest to. False for one that is no number. */
static bool is_inside(const float *point, uint32_t w, uint32_t h)
{
    return point[0] >= -0.5f && point[1] >= -0.5f && point[0] < (float)w - 0.5f && point[1] < (float)h - 0.5f;
}

static void leave_behind(float *point)
{
    point[0] = point[1] = point[2] = 0;
}

/* A point goes with its pixel. It is at whole numbers in the middle of a pixel, so that the left edge of the image is
 * at -1/2: a resize leaves that in place, and a mirror brings it to the right one. One that a crop leaves behind
 * becomes one without a label, (0, 0, 0) as COCO has it; those stay as they are. An operator that does not crop leaves
 * no point behind. */
static void move_points(struct leat_target_part *part, const struct leat_move *m)
{
    float *v = (float *)(void *)part->data;
    const double across = (double)m->out_w / (double)m->w, down = (double)m->out_h / (double)m->h;
    for (float *end = v + part->n * part->step / sizeof *v; v < end; v += 3) {
        if (v[2] == 0)
            continue;
        v[0] -= (float)m->x;
        v[1] -= (float)m->y;
        if (m->crops && !is_inside(v, (uint32_t)m->w, (uint32_t)m->h)) {
            leave_behind(v);
            continue;
        }
        v[0] = (float)((double)v[0] * across + (across - 1) / 2);
        v[1] = (float)((double)v[1] * down + (down - 1) / 2);
        if (m->flip)
            v[0] = (float)m->out_w - 1 - v[0];
        if (m->flip_y)
            v[1] = (float)m->out_h - 1 - v[1];
    }
}

/* In a mirror, left is right; mirrored twice an image is turned around. */
static void exchange_points(struct leat_target_part *part)
{
    struct point {
        float x, y, visibility;
    };
    struct point *points = (struct point *)(void *)part->data;
    const size_t k = part->step / sizeof *points;
    for (uint64_t i = 0; i < part->n; i++, points += k)
        for (size_t p = 0; p < part->n_pairs; p++) {
            const uint16_t a = part->pairs[2 * p], b = part->pairs[2 * p + 1];
            const struct point one = points[a];
            points[a] = points[b];
            points[b] = one;
        }
}

/* The numbers of `m` count from the edge of the first pixel, as those of boxes do; points count from its middle. */
static void turn_point(const struct leat_turn *t, bool corner, float x, float y, float to[2])
{
    const double *m = t->m, off = corner ? 0 : 0.5, xx = (double)x + off, yy = (double)y + off,
                 by = m[6] * xx + m[7] * yy + m[8];
    if (t->point) {
        t->point(t, corner, x, y, to);
        return;
    }
    to[0] = (float)((m[0] * xx + m[1] * yy + m[2]) / by - off);
    to[1] = (float)((m[3] * xx + m[4] * yy + m[5]) / by - off);
}

static void turn_boxes(const struct leat_targets *targets, struct leat_target_part *part, const struct leat_turn *t)
{
    float *boxes = leat_target_boxes(part);
    leat_boxes_convert(boxes, part->n, part->role, LEAT_ROLE_BOXES_XYXY);
    for (float *b = boxes; b < boxes + 4 * part->n; b += 4) {
        float corners[4][2];
        for (unsigned k = 0; k < 4; k++)
            turn_point(t, true, b[k & 1 ? 2 : 0], b[k & 2 ? 3 : 1], corners[k]);
        for (unsigned axis = 0; axis < 2; axis++) {
            b[axis] = fminf(fminf(corners[0][axis], corners[1][axis]), fminf(corners[2][axis], corners[3][axis]));
            b[axis + 2] = fmaxf(fmaxf(corners[0][axis], corners[1][axis]), fmaxf(corners[2][axis], corners[3][axis]));
        }
    }
    if (!t->whole)
        leat_targets_clamp(targets, part, LEAT_ROLE_BOXES_XYXY, t->out_w, t->out_h);
    leat_boxes_convert(boxes, part->n, LEAT_ROLE_BOXES_XYXY, part->role);
}

static void turn_keypoints(struct leat_target_part *part, const struct leat_turn *t)
{
    float *v = leat_target_boxes(part);
    for (float *end = v + part->n * part->step / sizeof *v; v < end; v += 3) {
        if (v[2] == 0)
            continue;
        turn_point(t, false, v[0], v[1], v);
        if (!t->whole && !is_inside(v, t->out_w, t->out_h))
            leave_behind(v);
    }
}

void leat_targets_turn(struct leat_targets *t, const struct leat_turn *turn)
{
    for (size_t p = 0; p < t->n; p++) {
        if (leat_role_is_boxes(t->parts[p].role))
            turn_boxes(t, &t->parts[p], turn);
        else if (t->parts[p].role == LEAT_ROLE_KEYPOINTS)
            turn_keypoints(&t->parts[p], turn);
    }
    t->w = turn->out_w;
    t->h = turn->out_h;
}

void leat_targets_move(struct leat_targets *t, const struct leat_move *move)
{
    for (size_t p = 0; p < t->n; p++) {
        if (leat_role_is_boxes(t->parts[p].role))
            move_boxes(t, &t->parts[p], move);
        else if (t->parts[p].role == LEAT_ROLE_KEYPOINTS)
            move_points(&t->parts[p], move);
        if (t->parts[p].role == LEAT_ROLE_KEYPOINTS && move->flip != move->flip_y)
            exchange_points(&t->parts[p]);
    }
    t->w = move->out_w;
    t->h = move->out_h;
    const struct leat_move into_frame = leat_move_into_frame(move);
    if (move->frame_w)
        leat_targets_move(t, &into_frame);
}
