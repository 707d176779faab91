/*
 * Fields of fixed size are read as columns, and of others their lengths. Boxes, lists of classes and sparse rows are
 * read sample by sample. The sizes of photos stand in derived columns of a packed file; in a folder, some photos are
 * decoded.
 */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/picture.h"
#include "left_out.h"
#include "print.h"
#include "progress.h"
#include "stats/stats.h"
#include "view/rows.h"

/* Documents whose texts are read though nobody asked, and their bytes: some seconds. */
#define MOST_UNASKED 1000000
#define MOST_UNASKED_BYTES ((double)(1 << 30))

struct collecting {
    const struct leat_dataset *dataset;
    const struct leat_field *fields;
    size_t n_fields;
    enum cli_letters *letters; /* of each field */
    uint64_t count, samples;
    uint64_t looked_at, broken;
    atomic_ullong read; /* values that are read one by one: photos, boxes, lists */
    bool short_of_memory;
    uint64_t *sizes;    /* of each sample's (first) image, see size_of; NULL: there is none */
    size_t first_image; /* its field, or SIZE_MAX */
    json_t *stats;
    struct leat_error error; /* the first value that could not be read, photos apart; code 0: none */
};

static void add(struct collecting *c, struct cli_numbers *numbers, double value)
{
    if (isfinite(value) && !cli_numbers_add(numbers, value))
        c->short_of_memory = true;
}

/* The list of a kind of field, made if it is missing. */
static void append(struct collecting *c, const char *key, json_t *object)
{
    json_array_append_new(json_object_get(c->stats, key), object);
}

/* A derived column, "image" and ".width"; -1: there is none. */
static int derived(const struct collecting *c, const struct leat_field *field, const char *suffix)
{
    char name[80];
    snprintf(name, sizeof name, "%s%s", field->name, suffix);
    return cli_field(c->dataset, name);
}

/* The values that could not be read. The first one is reported at the end. */
static void failed(struct collecting *c, const struct leat_error *error)
{
    if (!c->error.code)
        c->error = *error;
}

/* A column, in memory of its own. */
static bool read_column(struct collecting *c, size_t field, bool lengths, struct leat_value *out)
{
    struct leat_error error;
    const int rc = leat_dataset_column(c->dataset, field, lengths, true, out, &error);
    if (rc)
        failed(c, &error);
    return !rc;
}

static bool read_value(struct collecting *c, uint64_t sample, size_t field, struct leat_value *out)
{
    struct leat_error error;
    const int rc = leat_dataset_read(c->dataset, sample, field, out, &error);
    atomic_fetch_add(&c->read, 1);
    if (rc)
        failed(c, &error);
    return !rc;
}

/* The size of an image as one number: 8 bytes a sample are all that is kept of the photos. 0: not known. */
static uint64_t size_of(double width, double height)
{
    return (uint64_t)width << 32 | (uint64_t)height;
}

static double width_of(uint64_t size)
{
    return (double)(size >> 32);
}

static double height_of(uint64_t size)
{
    return (double)(size & UINT32_MAX);
}

/* ---- images ---------------------------------------------------------------------------------- */

struct shape {
    uint64_t size, n;
};

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int by_count(const void *a, const void *b)
{
    const struct shape *x = a, *y = b;
    return x->n != y->n ? (x->n > y->n ? -1 : 1) : by_size(&x->size, &y->size);
}

/* The most frequent sizes, at most 200. Sorts them; zeroes are none. */
static void add_shapes(struct collecting *c, uint64_t *sizes, json_t *into)
{
    struct shape *shapes = NULL;
    size_t distinct = 0, room = 0;
    json_t *list = json_array();
    qsort(sizes, (size_t)c->count, sizeof *sizes, by_size);
    for (uint64_t i = 0; i < c->count; i++) {
        if (!sizes[i])
            continue;
        if (!distinct || shapes[distinct - 1].size != sizes[i]) {
            if (distinct == room) {
                room = room ? 2 * room : 64;
                struct shape *more = realloc(shapes, room * sizeof *more);
                if (!more) {
                    c->short_of_memory = true;
                    break;
                }
                shapes = more;
            }
            shapes[distinct++] = (struct shape){sizes[i], 0};
        }
        shapes[distinct - 1].n++;
    }
    if (distinct)
        qsort(shapes, distinct, sizeof *shapes, by_count);
    for (size_t i = 0; i < distinct && i < 200; i++)
        json_array_append_new(list, json_pack("[I, I, I]", (json_int_t)(shapes[i].size >> 32),
                                              (json_int_t)(shapes[i].size & UINT32_MAX), (json_int_t)shapes[i].n));
    free(shapes);
    json_object_set_new(into, "shapes", list);
    json_object_set_new(into, "distinct_shapes", json_integer((json_int_t)distinct));
}

static void count_kind(json_t *kinds, const char *kind, uint64_t n)
{
    if (n)
        json_object_set_new(kinds, kind,
                            json_integer(json_integer_value(json_object_get(kinds, kind)) + (json_int_t)n));
}

/* Sizes from the columns that packing has left. False: there are none. */
static bool sizes_from_columns(struct collecting *c, const struct leat_field *field, uint64_t *sizes, json_t *kinds)
{
    const int columns[] = {derived(c, field, ".width"), derived(c, field, ".height"), derived(c, field, ".kind")};
    struct leat_value values[3] = {0};
    uint64_t of_kind[256] = {0};
    bool good = true;
    for (int i = 0; i < 3 && good; i++)
        good = columns[i] >= 0 && read_column(c, (size_t)columns[i], false, &values[i]);
    for (uint64_t s = 0; good && s < c->count; s++) {
        sizes[s] = size_of(cli_element(values[0].dtype, values[0].data, (size_t)s),
                           cli_element(values[1].dtype, values[1].data, (size_t)s));
        of_kind[(uint8_t)cli_element(values[2].dtype, values[2].data, (size_t)s)]++;
    }
    for (unsigned k = 0; k < 256; k++)
        count_kind(kinds, leat_photo_kind_name(k), of_kind[k]);
    for (int i = 0; i < 3; i++)
        leat_value_clear(&values[i]);
    return good;
}

/* Some photos, spread evenly, decoded to their end: this finds broken ones too. */
static void sizes_by_decoding(struct collecting *c, size_t field, uint64_t *sizes, struct cli_numbers *bytes,
                              json_t *kinds)
{
    const uint64_t n = c->count < c->samples ? c->count : c->samples;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t s = (uint64_t)((double)c->count * (double)i / (double)n);
        atomic_fetch_add(&c->read, 1);
        struct leat_value value;
        struct leat_error error;
        struct cli_picture picture = {0};
        if (leat_dataset_read(c->dataset, s, field, &value, &error)) {
            c->broken++;
            continue;
        }
        if (value.ndim == 3) {
            sizes[s] = size_of((double)value.shape[1], (double)value.shape[0]);
            count_kind(kinds, "pixels", 1);
        } else {
            if (cli_picture_decode(&c->fields[field], value.data, value.length, &picture, &error))
                c->broken++;
            else
                sizes[s] = size_of(picture.width, picture.height);
            count_kind(kinds, leat_photo_kind_name(leat_photo_kind(value.data, (size_t)value.length)), 1);
        }
        add(c, bytes, (double)value.length);
        cli_picture_clear(&picture);
        leat_value_clear(&value);
    }
    c->looked_at = n;
}

static void add_lengths(struct collecting *c, size_t field, double unit, struct cli_numbers *out)
{
    struct leat_value value;
    if (!read_column(c, field, true, &value))
        return;
    for (uint64_t s = 0; s < c->count; s++)
        add(c, out, (double)((const uint64_t *)value.data)[s] / unit);
    leat_value_clear(&value);
}

static void add_images(struct collecting *c, size_t number)
{
    const struct leat_field *field = &c->fields[number];
    uint64_t *sizes = calloc((size_t)c->count + 1, sizeof *sizes);
    struct cli_numbers width = {0}, height = {0}, bytes = {0};
    json_t *object = json_pack("{ss}", "field", field->name), *kinds = json_object();
    if (!sizes) {
        c->short_of_memory = true;
        json_decref(object);
        json_decref(kinds);
        return;
    }
    if (sizes_from_columns(c, field, sizes, kinds))
        add_lengths(c, number, 1, &bytes);
    else
        sizes_by_decoding(c, number, sizes, &bytes, kinds);
    for (uint64_t s = 0; s < c->count; s++)
        if (sizes[s]) {
            add(c, &width, width_of(sizes[s]));
            add(c, &height, height_of(sizes[s]));
        }
    json_object_set_new(object, "width", cli_numbers_json(&width, true));
    json_object_set_new(object, "height", cli_numbers_json(&height, true));
    json_object_set_new(object, "bytes", cli_numbers_json(&bytes, true));
    json_object_set_new(object, "kinds", kinds);
    cli_numbers_clear(&width);
    cli_numbers_clear(&height);
    cli_numbers_clear(&bytes);
    const bool first = !c->sizes && field->role == LEAT_ROLE_NONE;
    uint64_t *sorted = first ? malloc(((size_t)c->count + 1) * sizeof *sorted) : sizes;
    if (first && sorted)
        memcpy(sorted, sizes, (size_t)c->count * sizeof *sorted);
    if (sorted)
        add_shapes(c, sorted, object);
    else
        c->short_of_memory = true;
    append(c, "images", object);
    if (first) {
        c->sizes = sizes;
        c->first_image = number;
    }
    free(sorted);
}

/* ---- classes --------------------------------------------------------------------------------- */

/* Counts of the classes 0 to `n`, and how many numbers are none of them. */
struct counts {
    uint64_t *of;
    size_t n, names;
    uint64_t all, outside;
    int64_t most; /* the largest number within reason, if there are no names */
};

static void count(struct collecting *c, struct counts *counts, double value)
{
    enum { REASON = 100000 };
    const size_t limit = counts->names ? counts->names : REASON;
    counts->all++;
    if (!(value >= 0 && value < (double)limit)) {
        counts->outside++;
        return;
    }
    const size_t class = (size_t)value;
    if (class >= counts->n) {
        const size_t n = class + 1 > 2 * counts->n ? class + 1 : 2 * counts->n;
        uint64_t *of = realloc(counts->of, n * sizeof *of);
        if (!of) {
            c->short_of_memory = true;
            return;
        }
        memset(of + counts->n, 0, (n - counts->n) * sizeof *of);
        counts->of = of;
        counts->n = n;
    }
    counts->of[class]++;
}

static void add_classes(struct collecting *c, size_t number)
{
    const struct leat_field *field = &c->fields[number];
    struct counts counts = {0};
    struct leat_value value;
    const char *const *names = leat_dataset_classes(c->dataset, &counts.names);
    if (!field->ndim && read_column(c, number, false, &value)) {
        for (uint64_t s = 0; s < c->count; s++)
            count(c, &counts, cli_element(value.dtype, value.data, (size_t)s));
        leat_value_clear(&value);
    }
    for (uint64_t s = 0; field->ndim && s < c->count; s++) {
        if (!read_value(c, s, number, &value))
            continue;
        for (int64_t i = 0; i < value.shape[0]; i++)
            count(c, &counts, cli_element(value.dtype, value.data, (size_t)i));
        leat_value_clear(&value);
    }
    json_t *list = json_array();
    size_t used = 0;
    for (size_t i = 0; i < (counts.names > counts.n ? counts.names : counts.n); i++) {
        const uint64_t n = i < counts.n ? counts.of[i] : 0;
        used += n > 0;
        if (n || i < counts.names) {
            json_t *name = i < counts.names ? cli_json_text(names[i]) : json_null();
            json_array_append_new(
                list, json_pack("{sI so sI}", "class", (json_int_t)i, "name", name, "count", (json_int_t)n));
        }
    }
    append(c, "classes",
           json_pack("{ss ss sI sI sI so sI}", "field", field->name, "per", field->ndim ? "box" : "sample", "count",
                     (json_int_t)counts.all, "used", (json_int_t)used, "names", (json_int_t)counts.names, "counts",
                     list, "outside", (json_int_t)counts.outside));
    free(counts.of);
}

/* ---- boxes ----------------------------------------------------------------------------------- */

struct boxes {
    struct cli_numbers per_image, side, aspect;
    struct leat_box_counts counts;
    uint64_t without, small, medium, large;
};

static void add_box(struct collecting *c, struct boxes *boxes, const struct leat_field *field, const float b[4],
                    double width, double height)
{
    const double unit_x = field->normalized ? width : 1, unit_y = field->normalized ? height : 1;
    const bool corners = field->role == LEAT_ROLE_BOXES_XYXY;
    const double w = (double)(corners ? b[2] - b[0] : b[2]) * unit_x,
                 h = (double)(corners ? b[3] - b[1] : b[3]) * unit_y;
    if (!isfinite(w) || !isfinite(h) || !(w > 0 && h > 0))
        return;
    boxes->small += w * h < 32 * 32;
    boxes->medium += w * h >= 32 * 32 && w * h < 96 * 96;
    boxes->large += w * h >= 96 * 96;
    add(c, &boxes->side, sqrt(w * h));
    add(c, &boxes->aspect, w / h);
}

/* Whether the photo of a sample is turned by its EXIF orientation: boxes may be those of the turned one. */
static bool is_turned(struct collecting *c, uint64_t sample)
{
    struct leat_value photo;
    if (c->first_image == SIZE_MAX || leat_dataset_read(c->dataset, sample, c->first_image, &photo, NULL))
        return false;
    const bool pixels = photo.ndim == 3;
    const bool turned = (pixels ? photo.orientation : leat_photo_orientation(photo.data, (size_t)photo.length)) > 4;
    leat_value_clear(&photo);
    return turned;
}

static void count_boxes(struct collecting *c, struct boxes *boxes, const struct leat_field *field, const uint8_t *data,
                        size_t n, uint64_t sample)
{
    const double width = c->sizes ? width_of(c->sizes[sample]) : 0, height = c->sizes ? height_of(c->sizes[sample]) : 0;
    struct leat_box_counts upright = {0}, turned = {0};
    size_t fit = 0, fit_turned = 0;
    for (size_t i = 0; i < n; i++) {
        float b[4];
        memcpy(b, data + sizeof b * i, sizeof b);
        add_box(c, boxes, field, b, width, height);
        fit += leat_box_counts_add(&upright, field, b, width, height);
        fit_turned += leat_box_counts_add(&turned, field, b, height, width);
    }
    leat_box_counts_join(&boxes->counts, fit_turned > fit && is_turned(c, sample) ? &turned : &upright);
}

static void add_boxes(struct collecting *c, size_t number)
{
    const struct leat_field *field = &c->fields[number];
    struct boxes boxes = {0};
    for (uint64_t s = 0; s < c->count; s++) {
        struct leat_value value;
        if (!read_value(c, s, number, &value))
            continue;
        const size_t n = (size_t)value.shape[0];
        count_boxes(c, &boxes, field, value.data, n, s);
        boxes.without += !n;
        add(c, &boxes.per_image, (double)n);
        leat_value_clear(&value);
    }
    char text[400];
    const struct leat_box_counts *found = &boxes.counts;
    const bool suspect = leat_box_counts_suspect(found, field, text, sizeof text);
    append(c, "boxes",
           json_pack("{ss sI sI so so so sI sI sI sI sI sI sI sI ss*}", "field", field->name, "count",
                     (json_int_t)found->count, "images_without", (json_int_t)boxes.without, "per_image",
                     cli_numbers_json(&boxes.per_image, true), "side", cli_numbers_json(&boxes.side, false), "aspect",
                     cli_numbers_json(&boxes.aspect, false), "small", (json_int_t)boxes.small, "medium",
                     (json_int_t)boxes.medium, "large", (json_int_t)boxes.large, "not_finite",
                     (json_int_t)found->not_finite, "empty", (json_int_t)found->empty, "outside",
                     (json_int_t)found->outside, "cut", (json_int_t)found->cut, "tiny", (json_int_t)found->tiny,
                     "suspect", suspect ? text : NULL));
    cli_numbers_clear(&boxes.per_image);
    cli_numbers_clear(&boxes.side);
    cli_numbers_clear(&boxes.aspect);
}

/* ---- other fields ---------------------------------------------------------------------------- */

static void add_other(struct collecting *c, size_t number)
{
    const struct leat_field *field = &c->fields[number];
    struct cli_numbers numbers = {0};
    const bool scalar = field->kind == LEAT_KIND_ARRAY && !field->ndim,
               varies = field->kind != LEAT_KIND_ARRAY || (field->ndim && field->shape[0] < 0);
    json_t *object = json_pack("{ss}", "field", field->name), *q;
    if (scalar) {
        struct leat_value value;
        if (read_column(c, number, false, &value)) {
            for (uint64_t s = 0; s < c->count; s++)
                add(c, &numbers, cli_element(value.dtype, value.data, (size_t)s));
            leat_value_clear(&value);
        }
    } else if (varies) {
        double unit = field->kind == LEAT_KIND_ARRAY ? (double)leat_dtype_size(field->dtype) : 1;
        for (unsigned d = 1; d < field->ndim; d++)
            unit *= (double)field->shape[d];
        add_lengths(c, number, unit, &numbers);
        json_object_set_new(object, "unit", json_string(field->kind == LEAT_KIND_ARRAY ? "rows" : "bytes"));
        json_object_set_new(object, "total", json_real(numbers.sum));
    }
    q = cli_numbers_json(&numbers, !scalar || field->dtype <= LEAT_I64);
    if ((scalar || varies) && json_is_object(q)) {
        json_object_update(object, q);
        append(c, scalar ? "numbers" : "lengths", json_incref(object));
    }
    json_decref(q);
    json_decref(object);
    cli_numbers_clear(&numbers);
}

static void add_sparse(struct collecting *c, size_t number)
{
    struct leat_error error;
    bool short_of_memory = false;
    json_t *one = cli_stats_sparse(c->dataset, number, &c->read, &short_of_memory, &error);
    c->short_of_memory |= short_of_memory;
    if (one)
        append(c, "sparse", one);
    else if (!short_of_memory)
        failed(c, &error);
}

/* Adds what events are, and says whether there are any, which are of these three fields. */
static bool add_events(struct collecting *c, int fields[3])
{
    struct leat_error error;
    bool short_of_memory = false;
    if (!cli_stats_are_events(c->dataset, fields))
        return false;
    json_t *events = cli_stats_events(c->dataset, fields, &short_of_memory, &error);
    c->short_of_memory |= short_of_memory;
    if (events)
        json_object_set_new(c->stats, "events", events);
    else if (!short_of_memory)
        failed(c, &error);
    return true;
}

static bool holds_classes(const struct leat_field *field)
{
    const bool named = strstr(field->name, "label") || strstr(field->name, "class") || strstr(field->name, "category");
    return named && field->kind == LEAT_KIND_ARRAY && field->dtype <= LEAT_I64 && field->ndim <= 1 &&
           (!field->ndim || field->shape[0] < 0);
}

/* The number of values that will be read one by one. */
static uint64_t count_to_read(const struct collecting *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->n_fields; i++) {
        const struct leat_field *field = &c->fields[i];
        if (field->kind == LEAT_KIND_IMAGE)
            sum += derived(c, field, ".width") >= 0 ? 0 : c->count < c->samples ? c->count : c->samples;
        else if (field->role == LEAT_ROLE_SPARSE)
            sum += cli_stats_sparse_rows(c->dataset, i);
        else if (!(field->flags & LEAT_FIELD_DERIVED) &&
                 (cli_is_boxes(field->role) || (holds_classes(field) && field->ndim)))
            sum += c->count;
    }
    return sum;
}

static void read_progress(void *user, struct cli_progress_state *state)
{
    struct collecting *c = user;
    state->bytes = atomic_load(&c->read);
}

/* The field that a data set of documents is about: its only sequence of residues, or its only list of tokens, or else
 * the text of that name, or its only text. -1: there is none, or something else is looked at. */
static int find_documents(const struct collecting *c)
{
    static const char *const names[] = {"text", "content", "document"};
    int tokens = -1, text = -1, named = -1, residues = -1;
    size_t n_tokens = 0, n_texts = 0, n_residues = 0;
    for (size_t i = 0; i < c->n_fields; i++) {
        const struct leat_field *field = &c->fields[i];
        if (field->kind == LEAT_KIND_IMAGE || cli_is_boxes(field->role))
            return -1;
        if (c->letters[i] == CLI_RESIDUES) {
            n_residues++;
            residues = (int)i;
        }
        if (!cli_stats_is_text(field))
            continue;
        if (field->kind == LEAT_KIND_ARRAY) {
            n_tokens++;
            tokens = (int)i;
            continue;
        }
        n_texts++;
        text = (int)i;
        for (size_t k = 0; k < sizeof names / sizeof *names && named < 0; k++)
            if (!strcmp(field->name, names[k]))
                named = (int)i;
    }
    if (n_residues)
        return n_residues == 1 ? residues : -1;
    return n_tokens == 1 ? tokens : n_tokens ? -1 : named >= 0 ? named : n_texts == 1 ? text : -1;
}

/* The bytes of a field whose length varies, as they were counted. */
static double bytes_of(const struct collecting *c, const struct leat_field *field)
{
    const json_t *lengths = json_object_get(c->stats, "lengths"), *one;
    size_t i;
    json_array_foreach(lengths, i, one)
    {
        if (!strcmp(json_string_value(json_object_get(one, "field")), field->name))
            return json_number_value(json_object_get(one, "total")) *
                   (field->kind == LEAT_KIND_ARRAY ? (double)leat_dtype_size(field->dtype) : 1);
    }
    return 0;
}

/* Whether a field is read: `only`, with the qualities of its residues, or -1: all of them. */
static bool is_wanted(const struct collecting *c, size_t field, int by, int only)
{
    if ((int)field == by || !(c->letters[field] || cli_stats_is_text(&c->fields[field])))
        return false;
    return only < 0 || (int)field == only || (c->letters[only] == CLI_RESIDUES && c->letters[field] == CLI_QUALITIES);
}

static void add_texts(struct collecting *c, int by, int only)
{
    json_t *list = json_array();
    if (only >= 0)
        json_object_set_new(c->stats, "chosen", json_string(c->fields[only].name));
    json_object_set_new(c->stats, "texts", list);
    if (by >= 0)
        json_object_set_new(c->stats, "by", json_string(c->fields[by].name));
    for (size_t i = 0; i < c->n_fields; i++)
        if (is_wanted(c, i, by, only) && !c->error.code && !cli_interrupted()) {
            json_t *one = cli_stats_text(c->dataset, i, c->letters[i], by, &c->short_of_memory, &c->error);
            if (one)
                json_array_append_new(list, one);
        }
}

/* The field of --by, or -1; *good is false after a message. */
static int field_of_by(const struct cli_command *command, const struct collecting *c, const char *path,
                       const char *name, bool *good)
{
    const int by = name ? cli_field(c->dataset, name) : -1;
    *good = !name || (by >= 0 && (c->fields[by].kind == LEAT_KIND_STR ||
                                  (c->fields[by].kind == LEAT_KIND_ARRAY && !c->fields[by].ndim)));
    if (!*good && by < 0)
        cli_say_no_field(command, c->dataset, path, name);
    else if (!*good)
        cli_say(command, "--by takes a field of texts or single numbers: %s is none.", name);
    return by;
}

json_t *cli_stats_collect(const struct cli_command *command, const struct leat_dataset *dataset, const char *path,
                          const struct cli_stats_wish *wish, int *exit_code)
{
    struct collecting c = {
        .dataset = dataset, .count = leat_dataset_count(dataset), .samples = wish->samples, .first_image = SIZE_MAX};
    bool good;
    c.fields = leat_dataset_fields(dataset, &c.n_fields);
    c.looked_at = c.count;
    c.letters = calloc(c.n_fields + 1, sizeof *c.letters);
    const int by = field_of_by(command, &c, path, wish->by, &good);
    if (!good || !c.letters) {
        if (good)
            cli_say(command, "there is no memory for the statistics of %s.", path);
        free(c.letters);
        *exit_code = CLI_EXIT_FAILED;
        return NULL;
    }
    for (size_t i = 0; i < c.n_fields; i++)
        c.letters[i] = cli_letters_of(dataset, i, NULL);
    const struct cli_progress_options drawing = {
        .verb = "reading", .total_bytes = count_to_read(&c), .read = read_progress, .user = &c, .only_time = true};
    struct cli_progress *progress = drawing.total_bytes ? cli_progress_start(&drawing) : NULL;
    c.stats = json_pack("{so? sI s[] s[] s[] s[] s[] s[]}", "path", cli_json_text(path), "count", (json_int_t)c.count,
                        "images", "classes", "boxes", "sparse", "lengths", "numbers");
    json_t *about = cli_about(dataset);
    c.broken = cli_whole(about, "broken");
    if (json_object_get(about, "boxes"))
        json_object_set(c.stats, "annotations", json_object_get(about, "boxes"));
    json_decref(about);
    json_t *metadata = json_loads(leat_dataset_metadata(dataset), JSON_ALLOW_NUL, NULL),
           *cells = json_object_get(metadata, "cells");
    if (json_is_integer(json_object_get(cells, "files")) && json_is_array(json_object_get(cells, "first")))
        json_object_set(c.stats, "cells", cells);
    json_decref(metadata);
    json_t *left_out = cli_left_out(dataset);
    if (left_out)
        json_object_set_new(c.stats, "left_out", left_out);
    json_object_set_new(c.stats, "notice", json_string(leat_dataset_notice(dataset)));
    for (size_t i = 0; i < c.n_fields; i++)
        if (c.fields[i].kind == LEAT_KIND_IMAGE)
            add_images(&c, i);
    int events[3];
    const bool are_events = add_events(&c, events);
    for (size_t i = 0; i < c.n_fields; i++) {
        const struct leat_field *field = &c.fields[i];
        if (field->kind == LEAT_KIND_IMAGE || field->flags & LEAT_FIELD_DERIVED)
            continue;
        if (are_events && ((int)i == events[0] || (int)i == events[1] || (int)i == events[2]))
            continue;
        if (cli_is_boxes(field->role))
            add_boxes(&c, i);
        else if (field->role == LEAT_ROLE_SPARSE)
            add_sparse(&c, i);
        else if (holds_classes(field))
            add_classes(&c, i);
        else
            add_other(&c, i);
    }
    cli_progress_stop(progress);
    const bool asked = wish->text || wish->by;
    int documents = asked || wish->no_text || c.count > MOST_UNASKED ? -1 : find_documents(&c);
    if (documents >= 0 && bytes_of(&c, &c.fields[documents]) > MOST_UNASKED_BYTES)
        documents = -1;
    if (asked || documents >= 0) {
        cli_catch_interrupts();
        add_texts(&c, by, documents);
    }
    json_object_set_new(c.stats, "looked_at", json_integer((json_int_t)c.looked_at));
    json_object_set_new(c.stats, "broken", json_integer((json_int_t)c.broken));
    free(c.sizes);
    free(c.letters);
    *exit_code = CLI_EXIT_OK;
    if (c.short_of_memory)
        cli_say(command, "there is no memory for the statistics of %s.", path);
    else if (cli_interrupted())
        *exit_code = CLI_EXIT_INTERRUPTED;
    else if (c.error.code)
        *exit_code = cli_fail(command, &c.error, NULL);
    if (!c.short_of_memory && !*exit_code)
        return c.stats;
    *exit_code = *exit_code ? *exit_code : CLI_EXIT_FAILED;
    json_decref(c.stats);
    return NULL;
}
