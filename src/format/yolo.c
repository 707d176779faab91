/*
 * YOLO: a text file per photo, of its name, with a line per object in units of the photo's width and height:
 *
 *     3 0.5 0.25 0.1 0.2                 class, then the box: its centre, width and height
 *     3 0.1 0.1 0.3 0.1 0.3 0.4          class, then the corners of a polygon, three or more
 *
 * A photo without a file has no objects. The names of classes are the lines of a classes.txt in the folder of the
 * files, or the list "names" of a .yaml there or in one of the two folders above (yolo_names.c).
 */
#include "format/yolo.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/number.h"
#include "codec/shapes.h"
#include "format/sidecars.h"

struct yolo {
    struct leat_sidecars files;
    struct leat_column *boxes, *labels;
    struct leat_shape_bytes shapes; /* records, one per object */
    uint64_t *shape_ends;           /* [objects] */
    size_t n, ends_room;
    double *numbers;
    size_t numbers_room;
    bool has_shapes;
    struct leat_error *error;
};

bool leat_yolo_begins(const char *head, size_t n)
{
    static const char blanks[] = " \t\r";
    size_t numbers = 0, begin = n >= 3 && !memcmp(head, "\xef\xbb\xbf", 3) ? 3 : 0, i = begin;
    for (; i < n && head[i] != '\n'; i++) {
        if (!head[i] || !strchr("0123456789. eE+-\t\r", head[i]))
            return false;
        numbers += !strchr(blanks, head[i]) && (i == begin || strchr(blanks, head[i - 1]));
    }
    /* A class and a box, at least; a photo may have none, and a line may go on behind a head of 64 bytes or more. */
    return !numbers || numbers >= 5 || (i == n && n >= 64);
}

/* A text that is no file of labels may lie beside masks. */
static bool yolo_annotates(const char *path, bool folder, const uint8_t *head, size_t n)
{
    const enum leat_sidecars_found found =
        folder ? leat_sidecars_in(path, ".txt", leat_yolo_begins) : LEAT_SIDECARS_NONE;
    return found == LEAT_SIDECARS_SURE || (found && !leat_sidecars_in(path, ".png", NULL));
}

static int no_memory(const struct yolo *y)
{
    return leat_fail(y->error, LEAT_E_NOMEM, "no memory to read %s", y->files.a->path);
}

/* The numbers of a line; SIZE_MAX: something else stands there. */
static size_t read_numbers(struct yolo *y, const char *p, size_t n, int *rc)
{
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        struct leat_number number;
        if (p[i] == ' ' || p[i] == '\t' || p[i] == '\r') {
            i++;
            continue;
        }
        const size_t taken = leat_number_read(p + i, n - i, LEAT_NUMBER_TEXT, &number);
        const char behind = i + taken < n ? p[i + taken] : ' ';
        if (!taken || (behind != ' ' && behind != '\t' && behind != '\r'))
            return SIZE_MAX;
        if (!leat_grow(&y->numbers, &y->numbers_room, count + 1, sizeof *y->numbers)) {
            *rc = no_memory(y);
            return SIZE_MAX;
        }
        y->numbers[count++] = number.value;
        i += taken;
    }
    return count;
}

/* Centre, width and height of what is inside of the image; or what is wrong. */
static const char *make_box(const double *v, size_t n, float box[4])
{
    float corners[4];
    for (size_t i = 0; i < n; i++)
        if (!(v[i] >= -0.01 && v[i] <= 1.01))
            return "has a coordinate that is not in units of its image, 0 to 1";
    if (n == 4) {
        for (int i = 0; i < 4; i++)
            box[i] = (float)v[i];
        corners[0] = box[0] - box[2] / 2;
        corners[1] = box[1] - box[3] / 2;
        corners[2] = corners[0] + box[2];
        corners[3] = corners[1] + box[3];
    } else {
        corners[0] = corners[1] = INFINITY;
        corners[2] = corners[3] = -INFINITY;
        for (size_t i = 0; i < n; i++) {
            corners[i & 1] = fminf(corners[i & 1], (float)v[i]);
            corners[2 + (i & 1)] = fmaxf(corners[2 + (i & 1)], (float)v[i]);
        }
    }
    const float given[4] = {corners[0], corners[1], corners[2], corners[3]};
    const char *wrong = leat_box_fault(corners, 1, 1);
    if (n != 4 || memcmp(given, corners, sizeof given) != 0) { /* else as it stands in the file */
        box[0] = (corners[0] + corners[2]) / 2;
        box[1] = (corners[1] + corners[3]) / 2;
        box[2] = corners[2] - corners[0];
        box[3] = corners[3] - corners[1];
    }
    return wrong;
}

static int add_object(struct yolo *y, const double *v, size_t n, int64_t label, const float box[4])
{
    const uint32_t end = (uint32_t)(n / 2);
    y->has_shapes |= n > 4;
    const bool put = n > 4 ? leat_shapes_put_polygons(&y->shapes, v, &end, 1, true) : leat_shapes_put_none(&y->shapes);
    if (!put || !leat_grow(&y->shape_ends, &y->ends_room, y->n + 1, sizeof *y->shape_ends) ||
        !leat_column_push(y->boxes, box) || !leat_column_push(y->labels, &label))
        return no_memory(y);
    y->shape_ends[y->n++] = y->shapes.n;
    return LEAT_OK;
}

static int read_line(struct yolo *y, uint64_t photo, const char *p, size_t n, uint64_t line)
{
    struct leat_annotated *a = y->files.a;
    int rc = LEAT_OK;
    const char *wrong = NULL;
    float box[4];
    const size_t count = read_numbers(y, p, n, &rc);
    const double *v = y->numbers;
    if (rc || !count)
        return rc;
    a->tried++;
    if (count == SIZE_MAX)
        wrong = "has something else than numbers";
    else if (!(v[0] >= 0 && v[0] < 1e9 && v[0] == floor(v[0])))
        wrong = "begins with no number of a class";
    else if (a->n_classes && v[0] >= (double)a->n_classes)
        wrong = "has a class that has no name";
    else if (count != 5 && (count < 7 || count % 2 == 0))
        wrong = "has neither a class and a box (5 numbers) nor a class and a polygon (7 and more, odd)";
    else
        wrong = make_box(v + 1, count - 1, box);
    if (count == 5) {
        const float given[4] = {(float)v[1], (float)v[2], (float)v[3], (float)v[4]};
        if (!leat_annotated_box(a, given, (double)INFINITY, (double)INFINITY) && !wrong)
            leat_annotated_stray(a, "%s line %" PRIu64 " has the box %g %g %g %g", y->files.path, line, v[1], v[2],
                                 v[3], v[4]);
    }
    if (!wrong && count == 5)
        leat_annotated_tell(a, LEAT_TOLD_MASKLESS, "%s line %" PRIu64, y->files.path, line);
    if (!wrong)
        return add_object(y, v + 1, count - 1, (int64_t)v[0], box);
    rc = leat_fault(a, y->error, LEAT_E_CORRUPT, "lines that are no object", "%s line %" PRIu64 " %s", y->files.path,
                    line, wrong);
    return rc ? rc : leat_annotated_mark(a, photo, y->error);
}

static int read_photo(struct yolo *y, uint64_t photo)
{
    bool there;
    size_t n;
    uint64_t line = 0;
    int rc = leat_sidecars_read(&y->files, photo, &there, &n, y->error);
    const size_t mark = n >= 3 && !memcmp(y->files.text, "\xef\xbb\xbf", 3) ? 3 : 0; /* UTF-8's, of Windows' tools */
    for (size_t i = mark; !rc && i < n; i++) {
        const char *begin = (const char *)y->files.text + i, *end = memchr(begin, '\n', n - i);
        const size_t length = end ? (size_t)(end - begin) : n - i;
        rc = read_line(y, photo, begin, length, ++line);
        i += length;
    }
    y->files.a->first[photo + 1] = y->n;
    return rc;
}

/* The masks of each photo, its records behind a head. */
static int add_masks(struct yolo *y)
{
    struct leat_annotated *a = y->files.a;
    const uint64_t n = a->photos.listing.n_files;
    struct leat_column *masks = leat_annotated_masks(a);
    struct leat_shape_bytes bytes = {0};
    bool good = (masks->own_first = leat_new_array(n + 1, sizeof *masks->own_first));
    masks->first = masks->own_first;
    for (uint64_t i = 0; i < n && good; i++) {
        const uint64_t begin = a->first[i] ? y->shape_ends[a->first[i] - 1] : 0,
                       end = a->first[i + 1] ? y->shape_ends[a->first[i + 1] - 1] : 0;
        masks->own_first[i] = bytes.n;
        good = leat_shapes_put_head(&bytes, a->first[i + 1] - a->first[i]) &&
               leat_grow(&bytes.data, &bytes.room, bytes.n + (size_t)(end - begin) + 1, 1);
        if (good && end > begin)
            memcpy(bytes.data + bytes.n, y->shapes.data + begin, (size_t)(end - begin));
        bytes.n += good ? (size_t)(end - begin) : 0;
    }
    if (good)
        masks->own_first[n] = bytes.n;
    masks->data = bytes.data;
    return good ? LEAT_OK : no_memory(y);
}

static int yolo_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                     struct leat_error *error)
{
    struct leat_error unused;
    struct yolo y = {.error = error ? error : &unused};
    int rc = leat_sidecars_begin(&y.files, &leat_format_yolo, path, ".txt", options, y.error);
    struct leat_annotated *a = y.files.a;
    rc = rc ? rc : leat_annotated_classes(a, options, y.error);
    rc = rc ? rc : leat_yolo_names(a, y.error);
    if (!rc) {
        y.boxes = leat_annotated_column(a, "boxes", LEAT_F32, LEAT_ROLE_BOXES_CXCYWH, true, 4);
        y.boxes->field.normalized = true;
        a->given = y.boxes->field;
        y.labels = leat_annotated_column(a, "label", LEAT_I64, LEAT_ROLE_NONE, true, 0);
        if (!leat_column_fill(y.boxes, 0) || !leat_column_fill(y.labels, 0))
            rc = no_memory(&y);
    }
    for (uint64_t i = 0; !rc && i < a->photos.listing.n_files; i++)
        rc = read_photo(&y, i);
    rc = rc ? rc : leat_sidecars_check(&y.files, y.error);
    rc = rc || !y.has_shapes ? rc : add_masks(&y);
    if (a && !y.has_shapes)
        leat_annotated_untell(a, LEAT_TOLD_MASKLESS);
    leat_sidecars_end(&y.files);
    leat_free(y.shapes.data);
    leat_free(y.shape_ends);
    leat_free(y.numbers);
    return leat_annotated_finish(a, rc, options, out, y.error);
}

const struct leat_source_vtable leat_format_yolo = {
    .name = "yolo", .annotates = yolo_annotates, .takes_classes = true, .open = yolo_open};
