/*
 * COCO's keypoints: their names, which a category lists, and those of an instance.
 *
 * Names that differ in the words "left" and "right" alone, once, are those of a pair: what is left of a person is right
 * of its mirror image.
 */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/coco.h"

enum { NAME_ROOM = 64 }; /* a name that is longer is in no pair */

/* Whether `b` is `a` with "right" in the place of one "left". */
static bool mirrored(const char *a, const char *b)
{
    const size_t length = strlen(a);
    if (strlen(b) != length + 1)
        return false;
    for (size_t i = 0; i + 4 <= length; i++)
        if (!strncasecmp(a + i, "left", 4) && !strncasecmp(b + i, "right", 5) && !strncmp(a, b, i) &&
            !strcmp(a + i + 4, b + i + 5))
            return true;
    return false;
}

/* *n pairs of the points with these names. */
static void find_pairs(char (*names)[NAME_ROOM], size_t k, uint16_t *pairs, size_t *n)
{
    bool taken[LEAT_COCO_KEYPOINTS] = {false};
    *n = 0;
    for (size_t a = 0; a < k; a++)
        for (size_t b = 0; b < k && !taken[a]; b++)
            if (!taken[b] && mirrored(names[a], names[b])) {
                taken[a] = taken[b] = true;
                pairs[2 * *n] = (uint16_t)a;
                pairs[2 * (*n)++ + 1] = (uint16_t)b;
            }
}

/* The category stays; what has no name is in no pair. */
static int no_names(struct leat_coco *c, size_t category, struct leat_coco_place place, const char *wrong)
{
    return leat_fault(c->a, c->error, LEAT_E_CORRUPT, "categories with keypoints that have no names",
                      "categories[%zu] (%s) has %s", category, leat_coco_where(c, place), wrong);
}

int leat_coco_skeleton(struct leat_coco *c, size_t category, struct leat_coco_place place)
{
    struct leat_json *j = &c->json;
    char(*names)[NAME_ROOM] = leat_new_array(LEAT_COCO_KEYPOINTS, sizeof *names);
    size_t k = 0, nameless = 0, n_pairs;
    uint16_t *pairs = leat_new_array(LEAT_COCO_KEYPOINTS, sizeof *pairs);
    int rc = names && pairs ? LEAT_OK : leat_coco_no_memory(c);
    if (rc)
        goto out;
    if (leat_json_peek(j) != '[') {
        leat_json_skip(j);
        rc = no_names(c, category, place, "keypoints that are no list of names");
        goto out;
    }
    for (leat_json_enter(j, '['); leat_json_item(j); k++) {
        size_t length = NAME_ROOM;
        const char *name = leat_json_peek(j) == '"' ? leat_json_string(j, &length) : (leat_json_skip(j), NULL);
        nameless += !name;
        if (name && length < NAME_ROOM && k < LEAT_COCO_KEYPOINTS)
            memcpy(names[k], name, length + 1);
    }
    if (j->fault || !k)
        goto out;
    if (nameless && (rc = no_names(c, category, place, "a keypoint whose name is no text")))
        goto out;
    if (k > LEAT_COCO_KEYPOINTS) {
        rc = leat_fault(c->a, c->error, LEAT_E_CORRUPT, "categories with more than 1024 keypoints",
                        "categories[%zu] (%s) has %zu keypoints", category, leat_coco_where(c, place), k);
        goto out;
    }
    find_pairs(names, k, pairs, &n_pairs);
    if (c->skeleton && c->skeleton != k) {
        c->skeleton = UINT32_MAX;
    } else if (c->skeleton) { /* pairs are those of all categories, or there are none */
        if (n_pairs != c->n_pairs || memcmp(pairs, c->pairs, 2 * n_pairs * sizeof *pairs) != 0)
            c->n_pairs = 0;
    } else {
        c->skeleton = (uint32_t)k;
        c->n_pairs = n_pairs;
        c->pairs = pairs;
        pairs = NULL;
    }
out:
    leat_free(names);
    leat_free(pairs);
    return rc;
}

int leat_coco_keypoints(struct leat_coco *c, struct leat_coco_instance *one)
{
    struct leat_json *j = &c->json;
    if (leat_json_peek(j) != '[') {
        one->wrong_points = "has keypoints that are no list";
        leat_json_skip(j);
        return LEAT_OK;
    }
    one->points = c->n_points;
    leat_json_enter(j, '[');
    while (leat_json_item(j)) {
        double v = NAN;
        if (!leat_coco_number(j, &v))
            one->wrong_points = "has a keypoint with something else than numbers";
        else if (!isfinite((float)v) && !one->wrong_points)
            one->wrong_points = "has a keypoint that is not finite";
        if (c->n_points - one->points == 3 * LEAT_COCO_KEYPOINTS) {
            one->wrong_points = "has more than 1024 keypoints";
            continue;
        }
        if (!leat_grow(&c->points, &c->points_room, c->n_points + 1, sizeof *c->points))
            return leat_coco_no_memory(c);
        c->points[c->n_points++] = (float)v;
    }
    one->n_points = (uint32_t)(c->n_points - one->points);
    if (one->n_points % 3 && !one->wrong_points)
        one->wrong_points = "has keypoints that are not three numbers each";
    return LEAT_OK;
}
